//! `tcgen05.ld` and `tcgen05.st`: tensor memory to and from the registers of a warp.
//!
//! The shape says where register `r` of lane `l` lies: its row among the lanes of tensor memory from the address on, and its
//! column from the address on. `.xN` repeats the shape along the columns.
//!
//! | shape | rows | columns | registers | row | column |
//! |---|---|---|---|---|---|
//! | `.32x32b` | 32 | N | N | `l` | `r` |
//! | `.16x64b` | 16 | 2 N | N | `l / 4 + 8 * (l % 2)` | `l / 2 % 2 + 2 * r` |
//! | `.16x128b` | 16 | 4 N | 2 N | `l / 4 + 8 * (r % 2)` | `l % 4 + 4 * (r / 2)` |
//! | `.16x256b` | 16 | 8 N | 4 N | `l / 4 + 8 * (r / 2 % 2)` | `2 * (l % 4) + r % 2 + 8 * (r / 4)` |
//! | `.16x32bx2` | 16 | N, and N from `SPLIT` on | N | `l % 16` | `r + SPLIT * (l / 16)` |
//!
//! `.16x256b` is the fragment of an `mma` accumulator.
//!
//! PTX manual: *TensorCore 5th Generation Family Instructions*, "Data Movement Shape". CUTLASS: `Copy_Traits` of
//! `SM100_TMEM_LOAD_32dp32b`, `16dp64b`, `16dp128b`, `16dp256b` and `16dp32b`.

use super::Loaded;

/// Calls a macro with the names of so many registers.
macro_rules! registers {
    (1, $m:ident $($rest:tt)*) => {
        $m! {
            [r0]
            $($rest)*
        }
    };
    (2, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1]
            $($rest)*
        }
    };
    (4, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3]
            $($rest)*
        }
    };
    (8, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3 r4 r5 r6 r7]
            $($rest)*
        }
    };
    (16, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15]
            $($rest)*
        }
    };
    (32, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28
            r29 r30 r31]
            $($rest)*
        }
    };
    (64, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28
            r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54
            r55 r56 r57 r58 r59 r60 r61 r62 r63]
            $($rest)*
        }
    };
    (128, $m:ident $($rest:tt)*) => {
        $m! {
            [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28
            r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54
            r55 r56 r57 r58 r59 r60 r61 r62 r63 r64 r65 r66 r67 r68 r69 r70 r71 r72 r73 r74 r75 r76 r77 r78 r79 r80
            r81 r82 r83 r84 r85 r86 r87 r88 r89 r90 r91 r92 r93 r94 r95 r96 r97 r98 r99 r100 r101 r102 r103 r104 r105
            r106 r107 r108 r109 r110 r111 r112 r113 r114 r115 r116 r117 r118 r119 r120 r121 r122 r123 r124 r125 r126
            r127]
            $($rest)*
        }
    };
}

/// One load. With `SPLIT`, the columns of the second half of the warp.
macro_rules! ld {
    ([$first:ident $($r:ident)*] $name:ident $(<$split:ident>)? $n:literal $shape:literal) => {
        #[doc = concat!("`tcgen05.ld.sync.aligned.", $shape, ".b32`: see the table of the shapes.")]
        ///
        /// The registers have their values after [`wait_ld`](super::wait_ld) and [`Loaded::ready`], in this order.
        ///
        /// # Safety
        /// All 32 lanes execute it, convergent, with one address. The columns are allocated, and the address's lane is
        /// among the 32 that the warp owns, those from `32 * (warp % 4)` on: the first of them, or for 16 rows also the
        /// 17th. Whoever wrote the columns is known to have finished: through the barrier of a
        /// [`commit`](super::commit) and [`fence_after_thread_sync`](super::fence_after_thread_sync).
        #[crate::device]
        pub unsafe fn $name $(<const $split: u32>)? (taddr: u32) -> Loaded<$n> {
            #[cfg(target_arch = "nvptx64")]
            {
                let $first: u32;
                $(let $r: u32;)*
                ptx!(
                    concat!(
                        "tcgen05.ld.sync.aligned.", $shape, ".b32 {{{", stringify!($first), "}",
                        $(", {", stringify!($r), "}",)*
                        "}}, [{taddr}]" $(, ", {", stringify!($split), "}")?, ";"
                    ),
                    $first = out(reg32) $first, $($r = out(reg32) $r,)* taddr = in(reg32) taddr
                    $(, $split = const $split)?
                );
                Loaded([$first $(, $r)*])
            }
            #[cfg(not(target_arch = "nvptx64"))]
            Loaded(sim::ops::tcgen05::$name $(::<$split>)? (taddr))
        }
    };
}

/// One store.
macro_rules! st {
    ([$first:ident $($r:ident)*] $name:ident $(<$split:ident>)? $n:literal $shape:literal) => {
        ops! { tcgen05;
            #[doc = concat!("`tcgen05.st.sync.aligned.", $shape, ".b32`: see the table of the shapes.")]
            ///
            /// The store is over after [`wait_st`](super::wait_st).
            ///
            /// # Safety
            /// As for a load; nothing else uses the columns.
            pub unsafe fn $name $(<const $split: u32>)? (taddr: u32, v: [u32; $n]) {
                let [$first $(, $r)*] = v;
                ptx!(
                    concat!(
                        "tcgen05.st.sync.aligned.", $shape, ".b32 [{taddr}]",
                        $(", {", stringify!($split), "}",)? ", {{{", stringify!($first), "}",
                        $(", {", stringify!($r), "}",)* "}};"
                    ),
                    $first = in(reg32) $first, $($r = in(reg32) $r,)* taddr = in(reg32) taddr
                    $(, $split = const $split)?
                )
            }
        }
    };
}

/// Loads or stores, with the numbers of their registers.
macro_rules! moves {
    ($m:ident: $($name:ident $n:tt $(<$split:ident>)? $shape:literal;)*) => {
        $(registers! { $n, $m $name $(<$split>)? $n $shape })*
    };
}

moves! { ld:
    ld_32x32b_x1 1 "32x32b.x1";
    ld_32x32b_x2 2 "32x32b.x2";
    ld_32x32b_x4 4 "32x32b.x4";
    ld_32x32b_x8 8 "32x32b.x8";
    ld_32x32b_x16 16 "32x32b.x16";
    ld_32x32b_x32 32 "32x32b.x32";
    ld_32x32b_x64 64 "32x32b.x64";
    ld_32x32b_x128 128 "32x32b.x128";
    ld_16x64b_x1 1 "16x64b.x1";
    ld_16x64b_x2 2 "16x64b.x2";
    ld_16x64b_x4 4 "16x64b.x4";
    ld_16x64b_x8 8 "16x64b.x8";
    ld_16x64b_x16 16 "16x64b.x16";
    ld_16x64b_x32 32 "16x64b.x32";
    ld_16x64b_x64 64 "16x64b.x64";
    ld_16x64b_x128 128 "16x64b.x128";
    ld_16x128b_x1 2 "16x128b.x1";
    ld_16x128b_x2 4 "16x128b.x2";
    ld_16x128b_x4 8 "16x128b.x4";
    ld_16x128b_x8 16 "16x128b.x8";
    ld_16x128b_x16 32 "16x128b.x16";
    ld_16x128b_x32 64 "16x128b.x32";
    ld_16x128b_x64 128 "16x128b.x64";
    ld_16x256b_x1 4 "16x256b.x1";
    ld_16x256b_x2 8 "16x256b.x2";
    ld_16x256b_x4 16 "16x256b.x4";
    ld_16x256b_x8 32 "16x256b.x8";
    ld_16x256b_x16 64 "16x256b.x16";
    ld_16x256b_x32 128 "16x256b.x32";
    ld_16x32bx2_x1 1 <SPLIT> "16x32bx2.x1";
    ld_16x32bx2_x2 2 <SPLIT> "16x32bx2.x2";
    ld_16x32bx2_x4 4 <SPLIT> "16x32bx2.x4";
    ld_16x32bx2_x8 8 <SPLIT> "16x32bx2.x8";
    ld_16x32bx2_x16 16 <SPLIT> "16x32bx2.x16";
    ld_16x32bx2_x32 32 <SPLIT> "16x32bx2.x32";
    ld_16x32bx2_x64 64 <SPLIT> "16x32bx2.x64";
    ld_16x32bx2_x128 128 <SPLIT> "16x32bx2.x128";
}
moves! { st:
    st_32x32b_x1 1 "32x32b.x1";
    st_32x32b_x2 2 "32x32b.x2";
    st_32x32b_x4 4 "32x32b.x4";
    st_32x32b_x8 8 "32x32b.x8";
    st_32x32b_x16 16 "32x32b.x16";
    st_32x32b_x32 32 "32x32b.x32";
    st_32x32b_x64 64 "32x32b.x64";
    st_32x32b_x128 128 "32x32b.x128";
    st_16x64b_x1 1 "16x64b.x1";
    st_16x64b_x2 2 "16x64b.x2";
    st_16x64b_x4 4 "16x64b.x4";
    st_16x64b_x8 8 "16x64b.x8";
    st_16x64b_x16 16 "16x64b.x16";
    st_16x64b_x32 32 "16x64b.x32";
    st_16x64b_x64 64 "16x64b.x64";
    st_16x64b_x128 128 "16x64b.x128";
    st_16x128b_x1 2 "16x128b.x1";
    st_16x128b_x2 4 "16x128b.x2";
    st_16x128b_x4 8 "16x128b.x4";
    st_16x128b_x8 16 "16x128b.x8";
    st_16x128b_x16 32 "16x128b.x16";
    st_16x128b_x32 64 "16x128b.x32";
    st_16x128b_x64 128 "16x128b.x64";
    st_16x256b_x1 4 "16x256b.x1";
    st_16x256b_x2 8 "16x256b.x2";
    st_16x256b_x4 16 "16x256b.x4";
    st_16x256b_x8 32 "16x256b.x8";
    st_16x256b_x16 64 "16x256b.x16";
    st_16x256b_x32 128 "16x256b.x32";
    st_16x32bx2_x1 1 <SPLIT> "16x32bx2.x1";
    st_16x32bx2_x2 2 <SPLIT> "16x32bx2.x2";
    st_16x32bx2_x4 4 <SPLIT> "16x32bx2.x4";
    st_16x32bx2_x8 8 <SPLIT> "16x32bx2.x8";
    st_16x32bx2_x16 16 <SPLIT> "16x32bx2.x16";
    st_16x32bx2_x32 32 <SPLIT> "16x32bx2.x32";
    st_16x32bx2_x64 64 <SPLIT> "16x32bx2.x64";
    st_16x32bx2_x128 128 <SPLIT> "16x32bx2.x128";
}
