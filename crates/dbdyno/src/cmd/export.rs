//! `dbdyno export`: a run as one long table, one observation a row.

use crate::cli::{ExportArgs, ExportFormat};
use crate::failure::Failure;
use crate::{exit_code, output, stored};
use dbdyno_record::LongFormat;
use serde::Serializer;
use serde::ser::SerializeSeq;
use std::io::{self, BufWriter, Write};

/// Runs the command.
pub fn run(args: &ExportArgs) -> Result<u8, Failure> {
    let stored = stored::open(&args.results.directory, &args.run)?;
    stored.print_gaps();
    let planned = stored.planned_trials();
    let table = LongFormat::new(&stored.run, &planned);
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match args.format {
        ExportFormat::Csv => write_csv(&table, &mut out),
        ExportFormat::Json => write_json(&table, &mut out),
    };
    output::done(written.and_then(|()| out.flush()))?;
    Ok(exit_code::DONE)
}

fn write_csv(table: &LongFormat<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(table.columns()).map_err(io::Error::from)?;
    for row in table.rows() {
        csv.write_record(row.fields()).map_err(io::Error::from)?;
    }
    csv.flush()
}

fn write_json(table: &LongFormat<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::new(&mut *out);
    let mut rows = serializer.serialize_seq(None)?;
    for row in table.rows() {
        rows.serialize_element(&row)?;
    }
    rows.end()?;
    writeln!(out)
}
