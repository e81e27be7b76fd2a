//! Every entry's page, to be read: `cargo test -p warpipe-isa --test zoo pages -- --ignored --nocapture`.

use crate::FAMILIES;
use crate::world::run;

#[test]
#[ignore = "prints; a reader judges"]
fn pages() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for family in FAMILIES {
        for (name, bug) in family.bugs.iter().filter(|(name, _)| name.contains(&only)) {
            let bug = bug();
            let Some(report) = (0..100).find_map(|seed| run(&bug, true, seed).err()) else {
                continue;
            };
            println!("=== {} {name}: {}\n{report}", family.name, bug.wrong);
        }
    }
}
