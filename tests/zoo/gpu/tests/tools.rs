//! The words of docs/zoo.md, from a script in place of compute-sanitizer.
#![allow(missing_docs)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process};
use zoo_gpu::sanitize::Tools;

fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
    path
}

#[test]
fn a_line_says_what_each_tool_said() {
    let folder = env::temp_dir().join(format!("zoo-gpu-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let tools = Tools {
        // --tool TOOL RUNNER run NAME [--bug]
        sanitizer: script(
            &folder,
            "sanitizer",
            "case $2$6 in
            racecheck--bug) echo '== RACECHECK SUMMARY: 3 hazards displayed (0 errors, 3 warnings)';;
            racecheck) echo '== RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)';;
            synccheck--bug) sleep 100 & wait;;
            synccheck) echo '== ERROR SUMMARY: 0 errors';;
            memcheck*) echo '== ERROR SUMMARY: 2 errors';;
            esac",
        ),
        runner: script(&folder, "runner", "test \"$3\" != --bug"),
        time: Duration::from_secs(2),
        log: folder.clone(),
    };
    let start = Instant::now();
    let line = tools.line("a_kernel").expect("the scripts start");
    assert_eq!(
        line,
        "    (\"a_kernel\", [\"fails\", \"found\", \"hangs\", \"found, also the twin\"]),"
    );
    assert!(start.elapsed() < Duration::from_mins(1), "the script's child was not killed");
    fs::remove_dir_all(&folder).expect("the folder");
}
