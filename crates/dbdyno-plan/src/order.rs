//! Which cell is measured when: blocks of cells that share one start of an engine, engines alternating.
//!
//! Pure arithmetic on indexes; it knows no engine and no factor. The same seed gives the same order for ever, which
//! is why the generator is written out here instead of taken from a crate that may change.

use crate::experiment::Order;

/// A cell as far as its order is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellToOrder {
    /// Index of the engine.
    pub(crate) engine: usize,
    /// Cells of one engine with the same number can share a start of it.
    pub(crate) start: usize,
}

/// One start of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderedBlock {
    /// Repeat that it belongs to, from one.
    pub(crate) repeat: u32,
    /// Index of the engine.
    pub(crate) engine: usize,
    /// Indexes of its cells in the order they are measured.
    pub(crate) cells: Vec<usize>,
}

/// Lays out all blocks: in every repeat each cell stands once, and engines take turns.
pub(crate) fn order_blocks(
    cells: &[CellToOrder],
    repeats: u32,
    order: Order,
    seed: u64,
) -> Vec<OrderedBlock> {
    let mut random = SplitMix64(seed);
    let mut shuffle = |indexes: &mut Vec<usize>| {
        if order == Order::Interleaved {
            random.shuffle(indexes);
        }
    };
    let engines = distinct(cells.iter().map(|cell| cell.engine));
    let mut blocks = Vec::new();
    for repeat in 1..=repeats {
        let mut turns = engines.clone();
        shuffle(&mut turns);
        let mut starts_left: Vec<Vec<usize>> = Vec::new();
        for &engine in &turns {
            let mut starts =
                distinct(cells.iter().filter(|cell| cell.engine == engine).map(|cell| cell.start));
            shuffle(&mut starts);
            starts.reverse();
            starts_left.push(starts);
        }
        while starts_left.iter().any(|starts| !starts.is_empty()) {
            for (turn, &engine) in turns.iter().enumerate() {
                let Some(start) = starts_left[turn].pop() else { continue };
                let member = CellToOrder { engine, start };
                let mut in_block: Vec<usize> =
                    (0..cells.len()).filter(|&index| cells[index] == member).collect();
                shuffle(&mut in_block);
                blocks.push(OrderedBlock { repeat, engine, cells: in_block });
            }
        }
    }
    blocks
}

/// Each value once, in the order of first appearance.
fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Fisher-Yates. The bias of the multiplication is below n / 2^64.
    fn shuffle(&mut self, indexes: &mut [usize]) {
        for last in (1..indexes.len()).rev() {
            let other = (u128::from(self.bits()) * (last as u128 + 1)) >> 64;
            indexes.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(shape: &[(usize, usize)]) -> Vec<CellToOrder> {
        shape.iter().map(|&(engine, start)| CellToOrder { engine, start }).collect()
    }

    proptest! {
        #[test]
        fn every_cell_stands_once_in_every_repeat(
            shape in prop::collection::vec((0_usize..4, 0_usize..3), 1..40),
            repeats in 1_u32..6,
            seed: u64,
        ) {
            let cells = cells(&shape);
            for order in [Order::Interleaved, Order::AsWritten] {
                let blocks = order_blocks(&cells, repeats, order, seed);
                prop_assert_eq!(&blocks, &order_blocks(&cells, repeats, order, seed));
                for repeat in 1..=repeats {
                    let of_repeat = blocks.iter().filter(|block| block.repeat == repeat);
                    let mut seen: Vec<usize> =
                        of_repeat.flat_map(|block| block.cells.clone()).collect();
                    seen.sort_unstable();
                    prop_assert_eq!(seen, (0..cells.len()).collect::<Vec<_>>());
                }
                for block in &blocks {
                    let first = cells[block.cells[0]];
                    prop_assert_eq!(first.engine, block.engine);
                    prop_assert!(block.cells.iter().all(|&index| cells[index] == first));
                }
            }
        }

        #[test]
        fn engines_with_equally_many_starts_alternate(engines in 2_usize..5, seed: u64) {
            let shape: Vec<(usize, usize)> =
                (0..engines).flat_map(|engine| (0..3).map(move |start| (engine, start))).collect();
            let blocks = order_blocks(&cells(&shape), 1, Order::Interleaved, seed);
            for pair in blocks.windows(2) {
                prop_assert_ne!(pair[0].engine, pair[1].engine);
            }
        }
    }

    #[test]
    fn order_depends_on_the_seed_only_when_interleaved() {
        let shape: Vec<(usize, usize)> = (0..20).map(|index| (index % 2, 0)).collect();
        let lay = |order, seed| order_blocks(&cells(&shape), 2, order, seed);
        assert_eq!(lay(Order::AsWritten, 1), lay(Order::AsWritten, 2));
        assert_ne!(lay(Order::Interleaved, 1), lay(Order::Interleaved, 2));
        assert_eq!(lay(Order::AsWritten, 1)[0].cells, (0..20).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn the_generator_gives_its_published_numbers() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }
}
