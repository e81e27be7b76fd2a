//! `tune`, `save_tuning` and `load_tuning`: the fastest kernels of products, for the calls of this process.
//!
//! Tuned products are kept in one cache, which the plans of products, of layers and of all types look into. When it changes,
//! plans that were made before are dropped, so that the next call plans again.

use crate::layout::Place;
use crate::python::{Plan, checked, raise};
use crate::{engine, model, typed};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use warpipe::host::gemm::{TuneCache, TuneError};
use warpipe::host::timing::SearchConfig;

/// The cache of the process; `None` before the first entry.
fn kept() -> MutexGuard<'static, Option<Arc<TuneCache>>> {
    static CACHE: Mutex<Option<Arc<TuneCache>>> = Mutex::new(None);
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tuned products.
pub fn cache() -> Arc<TuneCache> {
    Arc::clone(kept().get_or_insert_default())
}

/// Changes the tuned products, and drops the plans that were made before.
fn change(change: impl FnOnce(&mut TuneCache)) {
    change(Arc::make_mut(kept().get_or_insert_default()));
    engine::forget();
    typed::forget();
}

/// The exception for an error of a file or of an entry.
pub fn tune_error(error: &TuneError) -> PyErr {
    let text = error.to_string();
    match error {
        TuneError::Open { source, .. } if source.kind() == ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(text)
        }
        TuneError::Open { .. } | TuneError::Save { .. } => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Tunes the product of checked tensors and returns its plan.
#[pyfunction]
pub fn tune(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    c: Option<&Bound<'_, PyAny>>,
    out: Option<&Bound<'_, PyAny>>,
    out_dtype: Option<&str>,
    seconds: f64,
) -> PyResult<Plan> {
    if !(0.01..=3600.0).contains(&seconds) {
        let text = format!("seconds is {seconds}; 0.01 to 3600 is right");
        return Err(PyValueError::new_err(text));
    }
    let (size, place) = checked(a, b, c, out, out_dtype)?;
    let Place::Cuda(ordinal) = place else {
        let text = format!(
            "a is on {place}; tuning needs a CUDA device, because the SM model has no times"
        );
        return Err(PyValueError::new_err(text));
    };
    let (gemm, problem) = (engine::gemm(ordinal)?, model::problem(&size));
    let limit = Duration::from_secs_f64(seconds);
    let config = SearchConfig { limit, ..SearchConfig::default() };
    let tuned = py.detach(|| gemm.tune(&problem, &config)).map_err(|e| raise(&e))?;
    let plan = Plan::new(size, tuned.plan.describe())?;
    change(|cache| cache.insert(tuned.entry));
    Ok(plan)
}

/// Adds the tuned products of this process to a file.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over an owned path.
pub fn save_tuning(path: PathBuf) -> PyResult<()> {
    let mut all = match TuneCache::load(&path) {
        Err(TuneError::Open { source, .. }) if source.kind() == ErrorKind::NotFound => {
            TuneCache::new()
        }
        loaded => loaded.map_err(|e| tune_error(&e))?,
    };
    all.merge((*cache()).clone());
    all.save(&path).map_err(|e| tune_error(&e))
}

/// Uses the tuned products of a file in this process, and returns their number.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Python hands over an owned path.
pub fn load_tuning(path: PathBuf) -> PyResult<usize> {
    let loaded = TuneCache::load(&path).map_err(|e| tune_error(&e))?;
    let count = loaded.entries().len();
    change(|cache| cache.merge(loaded));
    Ok(count)
}
