//! Scenario kernels: small kernels that are generic over the parameters of CUTLASS's pipeline tests. A
//! table in each module lists their instances.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![forbid(unsafe_code)]

pub mod convert;
pub mod copies;
pub mod idle;
pub mod meet;
pub mod multicast;
pub mod multiply;
pub mod parts;
pub mod stores;
pub mod throttle;
pub mod turns;
pub mod writers;
