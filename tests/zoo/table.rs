//! docs/zoo.md is what the entries say and what the model finds.

use crate::check::{find, marks};
use crate::sanitizer::{SETUP, tried};
use crate::{FAMILIES, Family};
use sim::Rule;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

const HEAD: &str = "# The bug zoo

tests/zoo has kernels with one planted bug each. A `//~` comment marks the line that the SM model must report, with
the rule. It must do so under each of 100 seeds. Where a bug shows in several ways, several lines are marked; the table
has what the first seed gives. The same kernel without the bug must pass under 20 seeds. `WARPIPE_SEEDS` sets the number
of both. The column *from* says where the bug was seen, and its row in [misuses.md](misuses.md). sim/README.md lists the rules. Each entry is a test:
`cargo test -p warpipe-isa --test zoo an_arrive_that_laps`.

`WARPIPE_BLESS=1 cargo test -p warpipe-isa --test zoo the_table` writes this file. Without the variable, the test compares
the file with the entries.
";

const SANITIZER: &str = "
## The bugs that shipped, under compute-sanitizer

The kernels of tests/zoo/shipped are compiled for a GPU as well. `zoo_gpu` of tests/zoo/gpu runs one with its bug, alone or
under a tool of NVIDIA's compute-sanitizer, and `zoo_gpu sanitize` writes this table's values. *ends*: the kernel ran to
its end. *found*: the tool reports an error. *silent*: it reports none. *hangs*: nothing came in time. *fails*: the
launch ends with an error. *also the twin*: the correct kernel gives the same. ";

fn section(family: &Family, out: &mut String) -> std::fmt::Result {
    let title = family.source.lines().next().unwrap_or_default();
    let title = title.trim_start_matches("//! ").trim_end_matches('.');
    writeln!(out, "\n## {title}\n\ntests/zoo/{}\n", family.name)?;
    writeln!(out, "| test | bug | from | rule | line |\n|---|---|---|---|---|")?;
    for (name, bug) in family.bugs {
        let bug = bug();
        let found = &find(family, name, &bug, 1)[0];
        writeln!(
            out,
            "| `{name}` | {} | {} | {} | {} |",
            bug.wrong,
            bug.from,
            found.rule.code(),
            found.line
        )?;
    }
    Ok(())
}

/// What compute-sanitizer says of the kernels that are compiled for a GPU as well.
fn sanitizer(out: &mut String) -> std::fmt::Result {
    writeln!(out, "{SANITIZER}{SETUP}\n")?;
    writeln!(
        out,
        "| test | on the GPU | racecheck | synccheck | memcheck |\n|---|---|---|---|---|"
    )?;
    for family in zoo_shipped::FAMILIES {
        for entry in family.entries {
            let t = tried(entry.name);
            let values = [t.alone, t.racecheck, t.synccheck, t.memcheck].join(" | ");
            writeln!(out, "| `{}` | {values} |", entry.name)?;
        }
    }
    Ok(())
}

#[test]
fn the_table_is_what_the_entries_say() {
    let mut table = HEAD.to_owned();
    for family in FAMILIES {
        section(family, &mut table).expect("a string");
    }
    sanitizer(&mut table).expect("a string");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/zoo.md");
    if std::env::var_os("WARPIPE_BLESS").is_some() {
        std::fs::write(&path, &table).expect("docs/zoo.md");
    }
    // A bundle runs away from the repository.
    let Ok(there) = std::fs::read_to_string(&path) else {
        assert!(!path.parent().is_some_and(std::path::Path::is_dir), "docs/zoo.md can't be read");
        println!("the_table_is_what_the_entries_say: skipped, there is no {}", path.display());
        return;
    };
    for (line, (there, wanted)) in (1..).zip(there.lines().zip(table.lines())) {
        assert_eq!(there, wanted, "docs/zoo.md:{line}; WARPIPE_BLESS=1 writes it");
    }
    assert_eq!(there.lines().count(), table.lines().count(), "WARPIPE_BLESS=1 writes docs/zoo.md");
}

#[test]
fn every_rule_has_an_entry() {
    let marked: BTreeSet<&str> = FAMILIES
        .iter()
        .flat_map(|f| f.bugs.iter().flat_map(|(name, _)| marks(f, name)))
        .map(|m| m.code)
        .collect();
    for rule in Rule::ALL {
        assert!(marked.contains(rule.code()), "{}: {}", rule.code(), rule.title());
    }
}
