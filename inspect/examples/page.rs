//! Prints the page of a kernel: `page FILE KERNEL`, where FILE is PTX or the `.rs` file of an image.

use std::path::Path;
use std::process::ExitCode;
use warpipe_inspect::{Error, Tools, inspect, read};

fn page(file: &str, kernel: &str) -> Result<String, Error> {
    let modules = read(Path::new(file))?;
    let found = modules.iter().find(|module| module.kernel == kernel).ok_or_else(|| {
        let have = modules.iter().map(|module| module.kernel.clone()).collect();
        Error::NoKernel { kernel: kernel.to_owned(), have }
    })?;
    Ok(inspect(&found.ptx, kernel, &Tools::find())?.to_string())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, kernel] = args.as_slice() else {
        eprintln!("usage: page FILE KERNEL");
        return ExitCode::from(2);
    };
    match page(file, kernel) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
