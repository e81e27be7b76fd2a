//! Errors: one line each.

use std::path::PathBuf;

/// Names of kernels that an error lists.
const LISTED: usize = 12;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image has no such kernel.
    #[error("no kernel {kernel}; there {}", listed(have))]
    NoKernel {
        /// What was asked for.
        kernel: String,
        /// The kernels that there are.
        have: Vec<String>,
    },
    /// A file is neither PTX nor an image of kernel-build.
    #[error("{}: {what}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The comment of kernel-build can't be read.
    #[error("kernel {kernel}: the comment of kernel-build in its PTX is damaged: {what}")]
    Facts {
        /// The kernel.
        kernel: String,
        /// What the JSON parser says.
        what: String,
    },
    /// The PTX can't be split, or a tool failed.
    #[error("{}", one_line(.0))]
    Build(#[from] kernel_build::Error),
    /// A file could not be used.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The disassembler failed.
    #[error("nvdisasm failed ({status}): {said}")]
    Disassembler {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The first line that it said.
        said: String,
    },
}

impl Error {
    /// For `map_err`: adds the operation and the path.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

fn listed(have: &[String]) -> String {
    let more = have.len().saturating_sub(LISTED);
    let names = have[..have.len() - more].join(", ");
    match (have.len(), more) {
        (0, _) => "is none".to_owned(),
        (_, 0) => format!("are: {names}"),
        _ => format!("are {}: {names} and {more} more", have.len()),
    }
}

/// A tool's output can have many lines.
fn one_line(error: &kernel_build::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kernel_names_those_that_are_there() {
        let line = |count: usize| {
            let have = (0..count).map(|i| format!("k{i}")).collect();
            Error::NoKernel { kernel: "x".into(), have }.to_string()
        };
        assert_eq!(line(0), "no kernel x; there is none");
        assert_eq!(line(2), "no kernel x; there are: k0, k1");
        assert!(line(14).ends_with(
            "there are 14: k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11 and 2 more"
        ));
    }
}
