//! Runs every litmus on the model and on GPU 0 and prints the comparison; with `--out` it writes the
//! page docs/conformance.md.
//!
//! ```text
//! report [--driver VERSION] [--date YYYY-MM-DD] [--out FILE] [--only WORD] [--skip WORD]...
//! ```
//! The litmuses run in a child process, so that one that ends the CUDA context costs its own row alone:
//! those behind it run in another. The page keeps what stands before `<!-- table -->`; the machine's
//! name comes from the driver, its driver version and the date from the arguments.

use conformance::report::{Row, beyond, ends_on_chip, on_chip, table};
use conformance::{Bench, Comparison, Litmus, all};
use host::Device;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

/// Passed to the child: the numbers of the litmuses that it runs, with commas.
const RUN: &str = "--run";
/// What starts the child's line of numbers, behind each litmus.
const NUMBERS: &str = "numbers:";

#[derive(Default)]
struct Options {
    driver: Option<String>,
    date: Option<String>,
    out: Option<String>,
    only: Vec<String>,
    skip: Vec<String>,
    run: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--driver" => options.driver = Some(value),
            "--date" => options.date = Some(value),
            "--out" => options.out = Some(value),
            "--only" => options.only.push(value),
            "--skip" => options.skip.push(value),
            RUN => options.run = Some(value),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(options)
}

/// The child: some litmuses, until one fails; each row in words, then in numbers.
fn child(list: &str) -> Result<(), String> {
    let device = Device::cuda(0).map_err(|e| e.to_string())?;
    let chip = Bench::new(device).map_err(|e| e.to_string())?;
    let litmuses = all();
    for number in list.split(',') {
        let index: usize = number.parse().map_err(|_| format!("{number}: not a number"))?;
        let litmus = litmuses.get(index).ok_or("no such litmus")?;
        let fatal = litmus.fatal();
        let row = match fatal {
            Some(error) => ends_on_chip(litmus, &chip, error)?,
            None => on_chip(litmus, &chip)?,
        };
        println!("{}", row.line());
        if litmus.refused.is_some() && fatal.is_none() {
            for line in beyond(litmus, &chip).map_err(|e| e.to_string())? {
                println!("  the chip: {line}");
            }
        }
        let c = &row.comparison;
        let float = |x: Option<f64>| x.unwrap_or(-1.0);
        println!(
            "{NUMBERS} {index} {} {} {} {:e} {:e}",
            c.compared,
            c.disagreements,
            c.both_allowed,
            float(c.largest),
            float(c.of_bound)
        );
        if fatal.is_some() {
            break; // The context is gone.
        }
    }
    Ok(())
}

/// A row from the child's numbers, and the index of its litmus.
fn row(numbers: &str, litmuses: &[Litmus]) -> Option<(usize, Row)> {
    let fields: Vec<f64> = numbers.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let &[index, compared, disagreements, both_allowed, largest, of_bound] = fields.as_slice()
    else {
        return None;
    };
    let litmus = litmuses.get(index as usize)?;
    let some = |x: f64| (x >= 0.0).then_some(x);
    let comparison = Comparison {
        compared: compared as usize,
        disagreements: disagreements as usize,
        named: Vec::new(),
        both_allowed: both_allowed as usize,
        largest: some(largest),
        of_bound: some(of_bound),
    };
    Some((index as usize, Row { name: litmus.name, refused: litmus.refused, comparison }))
}

/// Runs a child over `todo` and prints what it says. Gives the rows that it came to.
fn run_child(todo: &[usize], litmuses: &[Litmus]) -> Result<Vec<(usize, Row)>, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let list: Vec<String> = todo.iter().map(usize::to_string).collect();
    let mut child = Command::new(program)
        .args([RUN, &list.join(",")])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    if let Some(said) = child.stdout.take() {
        for line in BufReader::new(said).lines() {
            let line = line.map_err(|e| e.to_string())?;
            match line.strip_prefix(NUMBERS) {
                Some(numbers) => rows.extend(row(numbers, litmuses)),
                None => println!("{line}"),
            }
        }
    }
    child.wait().map_err(|e| e.to_string())?;
    Ok(rows)
}

/// The page: everything of the present one up to its table, and a table of these rows.
fn page(old: &str, rows: &[Row], machine: &str) -> String {
    let head = old.split("<!-- table -->").next().unwrap_or_default().trim_end();
    let floats: String = rows
        .iter()
        .filter_map(|r| {
            let (largest, part) = (r.comparison.largest?, r.comparison.of_bound?);
            Some(format!(
                "- {}: largest difference between chip and model {largest:e}; the chip's largest \
                 error is {part:.4} of what is allowed.\n",
                r.name
            ))
        })
        .collect();
    format!("{head}\n\n<!-- table -->\n{machine}\n\n{}\n{floats}", table(rows))
}

fn run() -> Result<bool, String> {
    let options = options()?;
    if let Some(list) = &options.run {
        return child(list).map(|()| true);
    }
    let devices = host::cuda_devices().map_err(|e| e.to_string())?;
    let device = devices.first().ok_or("no GPU")?;
    let chosen = |l: &Litmus| {
        let has = |words: &[String]| words.iter().any(|w| l.name.contains(w.as_str()));
        (options.only.is_empty() || has(&options.only)) && !has(&options.skip)
    };
    let litmuses = all();
    let mut todo: Vec<usize> = (0..litmuses.len()).filter(|&i| chosen(&litmuses[i])).collect();
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    while !todo.is_empty() {
        let mut ended = false;
        for (index, row) in run_child(&todo, &litmuses)? {
            todo.retain(|&i| i != index);
            rows.push(row);
            ended = litmuses[index].fatal().is_some();
        }
        // A child runs in order and stops at what fails, the first that is left, or behind a litmus
        // that ends the context as it should.
        if !todo.is_empty() && !ended {
            failed.push(litmuses[todo.remove(0)].name);
        }
    }
    let machine = format!(
        "{}, driver {} (CUDA {}.{}), {}.",
        device.name,
        options.driver.as_deref().unwrap_or("not given"),
        device.driver.0,
        device.driver.1,
        options.date.as_deref().unwrap_or("date not given")
    );
    println!("\n{machine}\n\n{}", table(&rows));
    if let Some(out) = &options.out {
        let old = std::fs::read_to_string(out).unwrap_or_default();
        std::fs::write(out, page(&old, &rows, &machine)).map_err(|e| format!("{out}: {e}"))?;
    }
    if !failed.is_empty() {
        println!("did not run to their end: {}", failed.join("; "));
    }
    Ok(failed.is_empty() && rows.iter().all(|r| r.comparison.disagreements == 0))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(line) => {
            eprintln!("report: {line}");
            ExitCode::FAILURE
        }
    }
}
