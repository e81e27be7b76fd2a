//! The check of an image by ptxas.

use crate::{
    DeviceImage, Error, PtxasCheck,
    blame::{self, Blame},
    nested::{self, Nested},
    ptxas::{self, Ptxas, Report},
    toolchain::Toolchain,
};
use std::{fs, path::Path};

/// The build whose image is checked.
pub(super) struct Checked<'a> {
    pub toolchain: &'a Toolchain,
    pub nested: &'a Nested<'a>,
    pub crate_dir: &'a Path,
    /// Paths are shown relative to this folder.
    pub shown_from: &'a Path,
    pub out_dir: &'a Path,
    pub how: PtxasCheck,
    /// Whether the cubins are copied to the output folder.
    pub cubin: bool,
    pub convergent: bool,
}

impl Checked<'_> {
    /// Assembles the kernels of an image, if there is a ptxas, and reports what it finds.
    pub fn check(&self, image: &mut DeviceImage) -> Result<(), Error> {
        if self.how == PtxasCheck::Off || image.modules.is_empty() {
            return Ok(());
        }
        let Some(ptxas) = Ptxas::find()? else {
            image.warnings.push(format!(
                "no ptxas found ({} and PATH): the PTX of {} is not checked for spills; the driver will assemble it",
                ptxas::VARIABLES.join(", "),
                image.name
            ));
            return Ok(());
        };
        // Builds with other features, or in another workspace, have many kernels with the same text: they share the folder.
        let Nested { target_dir, lib_name, arch, .. } = self.nested;
        let folder = target_dir.join(format!("ptxas-{lib_name}-{arch}"));
        let _lock = nested::lock(&folder)?;
        let reports = ptxas.check(image.arch, &image.modules, &folder)?;
        if self.cubin {
            for module in &image.modules {
                let file = format!("{}.cubin", module.kernel);
                let (from, to) = (folder.join(&file), self.out_dir.join(&file));
                fs::copy(from, &to).map_err(Error::io("cannot write", &to))?;
            }
        }
        let faulty = blame::faulty(&image.modules, &reports);
        let report = Report::join(reports);
        image.warnings.extend(report.warnings.iter().cloned());
        let version = ptxas.version.clone();
        match self.how {
            PtxasCheck::Strict if !faulty.is_empty() => {
                let faults = self.explained(&ptxas, &report, &faulty);
                return Err(Error::Ptxas { version, ptx: image.ptx_path.clone(), faults });
            }
            _ if !faulty.is_empty() => {
                let (name, faults) = (&image.name, report.faults());
                let warning = format!("ptxas {version} finds fault with {name}:\n{faults}");
                image.warnings.push(warning);
            }
            _ => {}
        }
        image.ptxas = Some((ptxas, report));
        Ok(())
    }

    /// The faults with the lines of Rust to blame.
    fn explained(&self, ptxas: &Ptxas, report: &Report, faulty: &[&str]) -> String {
        let Self { toolchain, nested, crate_dir, shown_from, convergent, .. } = *self;
        let blame = Blame { toolchain, ptxas, nested, convergent, crate_dir, shown_from };
        let lines = match blame.explain(faulty) {
            Ok(lines) => lines,
            Err(error) => return format!("{}\n  no lines of Rust: {error}", report.faults()),
        };
        // With line information, ptxas may find fewer faults: what it found first stands.
        let missing = faulty.iter().any(|kernel| !lines.contains(&format!("kernel {kernel}: ")));
        let text = if missing { report.faults() + "\n" + &lines } else { lines + &report.cures() };
        text.trim_end().to_owned()
    }
}
