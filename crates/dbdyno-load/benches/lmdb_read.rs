//! What worker and recorder add to an engine: LMDB point reads through the request loop beside a hand-written loop over
//! the same library, database and keys. `cargo bench -p dbdyno-load --bench lmdb_read`.
#![allow(missing_docs)]

mod point_reads;

use dbdyno_load::clock;
use dbdyno_load::driver::{OpenOptions, lmdb::Lmdb};
use lmdb_master_sys as ffi;
use point_reads::{ROUND_NS, Rows, compare, load};
use std::ffi::CString;
use std::path::Path;
use std::ptr;

/// Renew, get, reset: nothing else. The clock is read once in 1,000 reads.
fn by_hand(directory: &Path) -> f64 {
    let path = CString::new(directory.to_str().expect("UTF-8")).expect("no zero byte");
    let (mut environment, mut reader, mut table) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: the calls follow LMDB's documented order; every pointer is live where it is used, and results are checked.
    unsafe {
        assert_eq!(ffi::mdb_env_create(&mut environment), 0);
        assert_eq!(ffi::mdb_env_set_maxdbs(environment, 8), 0);
        let flags = ffi::MDB_RDONLY | ffi::MDB_NOTLS;
        assert_eq!(ffi::mdb_env_open(environment, path.as_ptr(), flags, 0o600), 0);
        assert_eq!(ffi::mdb_txn_begin(environment, ptr::null_mut(), flags, &mut reader), 0);
        assert_eq!(ffi::mdb_dbi_open(reader, c"t1".as_ptr(), ffi::MDB_INTEGERKEY, &mut table), 0);
        assert_eq!(ffi::mdb_txn_commit(reader), 0);
        assert_eq!(ffi::mdb_txn_begin(environment, ptr::null_mut(), flags, &mut reader), 0);
        ffi::mdb_txn_reset(reader);
        let mut rows = Rows(0);
        let (start, mut reads) = (clock::now(), 0u64);
        let ns = loop {
            for _ in 0..1_000 {
                let row = rows.next_row();
                let mut key =
                    ffi::MDB_val { mv_size: 8, mv_data: (&raw const row).cast_mut().cast() };
                let mut value = ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() };
                assert_eq!(ffi::mdb_txn_renew(reader), 0);
                assert_eq!(ffi::mdb_get(reader, table, &mut key, &mut value), 0);
                std::hint::black_box(value.mv_data);
                ffi::mdb_txn_reset(reader);
            }
            reads += 1_000;
            let elapsed = clock::now() - start;
            if elapsed >= ROUND_NS {
                break elapsed as f64 / reads as f64;
            }
        };
        ffi::mdb_txn_abort(reader);
        ffi::mdb_env_close(environment);
        ns
    }
}

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = [("no_sync", "true"), ("write_map", "false"), ("map_size_mb", "256")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let options = OpenOptions::of_directory(directory.path().to_owned(), settings, 1);
    load::<Lmdb>(&options);
    compare::<Lmdb>("LMDB", &options, || by_hand(directory.path()));
}
