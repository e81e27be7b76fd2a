//! What PTX says of a kernel: its directives, and the comment of `kernel-build`.

use crate::Error;
use crate::ptx::Header;
use serde::{Deserialize, Serialize};

/// A kernel's launch, parameters and CTA.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// Entry name.
    pub kernel: String,
    /// PTX target, `sm_90a`.
    pub target: String,
    /// Threads per CTA, if the PTX says.
    pub threads: Option<u32>,
    /// CTAs per SM that registers allow (`.minnctapersm`).
    pub min_ctas: u32,
    /// Cluster dimensions in CTAs.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA in bytes; PTX alone does not say.
    pub smem_bytes: Option<u32>,
    /// Shared memory that the kernel declares itself, in bytes.
    pub static_smem_bytes: u32,
    /// Whether it is a dependent grid; PTX alone does not say.
    pub dependent: Option<bool>,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// Roles and regions, if the kernel takes a `Cta`.
    pub cta: Option<Cta>,
    /// Whether the PTX has the comment of `kernel-build`.
    #[serde(skip)]
    pub(crate) described: bool,
}

/// A parameter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Param {
    /// Its name; empty if the PTX does not say.
    #[serde(default)]
    pub name: String,
    /// `value`, `slice`, `tensor map` or `struct`; empty if the PTX does not say.
    #[serde(default)]
    pub kind: String,
    /// Its size.
    pub bytes: u32,
    /// Its alignment.
    pub align: u32,
    /// Element type of a slice or tensor map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Rows and columns of a tensor map's box.
    #[serde(default, rename = "box", skip_serializing_if = "Option::is_none")]
    pub tile: Option<[u32; 2]>,
    /// Swizzle of a tensor map in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swizzle: Option<u32>,
    /// Whether the kernel may write a slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutable: Option<bool>,
}

/// What the type of a kernel's `Cta` knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cta {
    /// Registers of each thread before `setmaxnreg`.
    pub registers_at_entry: u32,
    /// CTAs of the cluster along M and along N.
    pub cluster: [u32; 2],
    /// The roles, in the order of their warps.
    pub roles: Vec<Role>,
    /// The regions of the shared-memory plan.
    pub regions: Vec<Region>,
}

/// A role.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Its warp groups.
    pub groups: u32,
    /// Registers of each thread after `setmaxnreg`.
    pub registers: u32,
}

/// A region of the shared-memory plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Region {
    /// Its name; empty for an anonymous region.
    pub name: String,
    /// The type that made it.
    pub kind: String,
    /// Offset in the dynamic shared memory.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Its parts, whose offsets count from its start.
    pub parts: Vec<Part>,
}

/// A part of a region.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "lowercase")]
pub enum Part {
    /// Equal pieces of memory that each hold tiles.
    Tiles {
        /// What a piece is called, in the plural.
        what: String,
        /// Offset of the first one.
        offset: u32,
        /// How many there are.
        count: u32,
        /// The tiles of a piece.
        tiles: Vec<Tile>,
    },
    /// Memory without tiles.
    Bytes {
        /// What it holds.
        what: String,
        /// Offset of the first byte.
        offset: u32,
        /// Number of bytes.
        bytes: u32,
    },
    /// mbarriers of 8 bytes.
    Mbarriers {
        /// What they are called.
        what: String,
        /// Offset of the first one.
        offset: u32,
        /// How many there are.
        count: u32,
        /// Arrivals that each expects in a phase.
        arrivals: u32,
        /// Who arrives.
        by: String,
    },
    /// A named barrier.
    Named {
        /// Its id.
        id: u32,
        /// Threads that arrive or wait.
        threads: u32,
        /// Which threads these are.
        by: String,
    },
}

/// A tile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tile {
    /// Element type.
    pub dtype: String,
    /// Rows.
    pub rows: u32,
    /// Columns, in elements.
    pub cols: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A named barrier of the CTA.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Barrier {
    /// Its id, 0 to 15.
    pub id: u32,
    /// Threads that arrive or wait.
    pub threads: u32,
    /// Whose it is.
    pub of: String,
}

/// The comment of `kernel-build`.
#[derive(Deserialize)]
struct Comment {
    kernel: String,
    threads: u32,
    min_ctas: u32,
    cluster: [u32; 3],
    smem_bytes: u32,
    dependent: bool,
    params: Vec<Param>,
    cta: Option<Cta>,
}

/// The facts about `kernel`, whose entry is `header`.
pub(crate) fn of(ptx: &str, kernel: &str, header: &Header) -> Result<Facts, Error> {
    let damaged = |what: String| Error::Facts { kernel: kernel.to_owned(), what };
    let common = Facts {
        kernel: kernel.to_owned(),
        target: header.target.to_owned(),
        threads: None,
        min_ctas: 1,
        cluster: [1; 3],
        smem_bytes: None,
        static_smem_bytes: header.static_smem(),
        dependent: None,
        params: Vec::new(),
        cta: None,
        described: false,
    };
    for line in ptx[..header.at].lines().rev() {
        let Some(json) = line.strip_prefix(kernel_build::facts::PREFIX) else { continue };
        let comment: Comment = serde_json::from_str(json).map_err(|e| damaged(e.to_string()))?;
        if comment.kernel != kernel {
            break;
        }
        return Ok(Facts {
            threads: Some(comment.threads),
            min_ctas: comment.min_ctas,
            cluster: comment.cluster,
            smem_bytes: Some(comment.smem_bytes),
            dependent: Some(comment.dependent),
            params: comment.params,
            cta: comment.cta,
            described: true,
            ..common
        });
    }
    let product = |numbers: Vec<u32>| numbers.into_iter().try_fold(1u32, u32::checked_mul);
    let threads = header.numbers(".reqntid").or_else(|| header.numbers(".maxntid"));
    let cluster = header.numbers(".reqnctapercluster").unwrap_or_default();
    let param = |(bytes, align)| Param { bytes, align, ..Param::default() };
    Ok(Facts {
        threads: threads.and_then(product),
        min_ctas: header.numbers(".minnctapersm").and_then(|n| n.first().copied()).unwrap_or(1),
        cluster: std::array::from_fn(|i| cluster.get(i).copied().unwrap_or(1)),
        params: header.params().into_iter().map(param).collect(),
        ..common
    })
}

/// The named barriers of a CTA with roles: the CTA's, each warp group's, and those of the plan.
pub(crate) fn named_barriers(facts: &Facts) -> Vec<Barrier> {
    let Some(cta) = &facts.cta else { return Vec::new() };
    let threads = facts.threads.unwrap_or_default();
    let mut all = vec![Barrier { id: 0, threads, of: "the CTA".to_owned() }];
    for role in &cta.roles {
        for group in 0..role.groups {
            let of = format!("{}, warp group {group}", role.name);
            all.push(Barrier { id: all.len() as u32, threads: 128, of });
        }
    }
    for region in &cta.regions {
        for part in &region.parts {
            if let Part::Named { id, threads, by } = part {
                let of = format!("{}: {by}", region.name);
                all.push(Barrier { id: *id, threads: *threads, of });
            }
        }
    }
    all
}
