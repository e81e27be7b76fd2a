//! `tcgen05.ld` and `tcgen05.st`: tensor memory to and from the registers of a warp.

use super::Loaded;

macro_rules! lds {
    ($($(#[$meta:meta])* $name:ident -> $n:literal: $template:literal, [$first:ident $($r:ident)*];)*) => {
        $($(#[$meta])*
        ///
        /// The registers have their values after [`wait_ld`](super::wait_ld) and [`Loaded::ready`], in this order.
        ///
        /// # Safety
        /// All 32 lanes execute it, convergent, with one address. The columns are allocated, and the address's lane is
        /// among the 32 that the warp owns, those from `32 * (warp % 4)` on. Whoever wrote the columns is known to have
        /// finished: through the barrier of a [`commit`](super::commit) and
        /// [`fence_after_thread_sync`](super::fence_after_thread_sync).
        #[crate::device]
        pub unsafe fn $name(taddr: u32) -> Loaded<$n> {
            #[cfg(target_arch = "nvptx64")]
            {
                let $first: u32;
                $(let $r: u32;)*
                ptx!(
                    concat!($template, " {{{", stringify!($first), "}", $(", {", stringify!($r), "}",)* "}}, [{taddr}];"),
                    $first = out(reg32) $first, $($r = out(reg32) $r,)* taddr = in(reg32) taddr
                );
                Loaded([$first $(, $r)*])
            }
            #[cfg(not(target_arch = "nvptx64"))]
            Loaded(sim::ops::tcgen05::$name(taddr))
        })*
    };
}

macro_rules! sts {
    ($($(#[$meta:meta])* $name:ident($n:literal): $template:literal, [$first:ident $($r:ident)*];)*) => {
        ops! { tcgen05;
            $($(#[$meta])*
            ///
            /// The store is over after [`wait_st`](super::wait_st).
            ///
            /// # Safety
            /// As for a load; nothing else uses the columns.
            pub unsafe fn $name(taddr: u32, v: [u32; $n]) {
                let [$first $(, $r)*] = v;
                ptx!(
                    concat!($template, " [{taddr}], {{{", stringify!($first), "}", $(", {", stringify!($r), "}",)* "}};"),
                    $first = in(reg32) $first, $($r = in(reg32) $r,)* taddr = in(reg32) taddr
                )
            })*
        }
    };
}

lds! {
    /// `tcgen05.ld.sync.aligned.32x32b.x1.b32`: lane `l` of the warp gets 1 column of lane `l` of its 32.
    ld_32x32b_x1 -> 1: "tcgen05.ld.sync.aligned.32x32b.x1.b32", [r0];
    /// `tcgen05.ld.sync.aligned.32x32b.x2.b32`: lane `l` of the warp gets 2 columns of lane `l` of its 32.
    ld_32x32b_x2 -> 2: "tcgen05.ld.sync.aligned.32x32b.x2.b32", [r0 r1];
    /// `tcgen05.ld.sync.aligned.32x32b.x4.b32`: lane `l` of the warp gets 4 columns of lane `l` of its 32.
    ld_32x32b_x4 -> 4: "tcgen05.ld.sync.aligned.32x32b.x4.b32", [r0 r1 r2 r3];
    /// `tcgen05.ld.sync.aligned.32x32b.x8.b32`: lane `l` of the warp gets 8 columns of lane `l` of its 32.
    ld_32x32b_x8 -> 8: "tcgen05.ld.sync.aligned.32x32b.x8.b32", [r0 r1 r2 r3 r4 r5 r6 r7];
    /// `tcgen05.ld.sync.aligned.32x32b.x16.b32`: lane `l` of the warp gets 16 columns of lane `l` of its 32.
    ld_32x32b_x16 -> 16: "tcgen05.ld.sync.aligned.32x32b.x16.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15];
    /// `tcgen05.ld.sync.aligned.32x32b.x32.b32`: lane `l` of the warp gets 32 columns of lane `l` of its 32.
    ld_32x32b_x32 -> 32: "tcgen05.ld.sync.aligned.32x32b.x32.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31];
    /// `tcgen05.ld.sync.aligned.32x32b.x64.b32`: lane `l` of the warp gets 64 columns of lane `l` of its 32.
    ld_32x32b_x64 -> 64: "tcgen05.ld.sync.aligned.32x32b.x64.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63];
    /// `tcgen05.ld.sync.aligned.32x32b.x128.b32`: lane `l` of the warp gets 128 columns of lane `l` of its 32.
    ld_32x32b_x128 -> 128: "tcgen05.ld.sync.aligned.32x32b.x128.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63 r64 r65 r66 r67 r68 r69 r70 r71 r72 r73 r74 r75 r76 r77 r78 r79 r80 r81 r82 r83 r84 r85 r86 r87 r88 r89 r90 r91 r92 r93 r94 r95 r96 r97 r98 r99 r100 r101 r102 r103 r104 r105 r106 r107 r108 r109 r110 r111 r112 r113 r114 r115 r116 r117 r118 r119 r120 r121 r122 r123 r124 r125 r126 r127];
    /// `tcgen05.ld.sync.aligned.16x256b.x1.b32`: 8 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x1 -> 4: "tcgen05.ld.sync.aligned.16x256b.x1.b32", [r0 r1 r2 r3];
    /// `tcgen05.ld.sync.aligned.16x256b.x2.b32`: 16 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x2 -> 8: "tcgen05.ld.sync.aligned.16x256b.x2.b32", [r0 r1 r2 r3 r4 r5 r6 r7];
    /// `tcgen05.ld.sync.aligned.16x256b.x4.b32`: 32 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x4 -> 16: "tcgen05.ld.sync.aligned.16x256b.x4.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15];
    /// `tcgen05.ld.sync.aligned.16x256b.x8.b32`: 64 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x8 -> 32: "tcgen05.ld.sync.aligned.16x256b.x8.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31];
    /// `tcgen05.ld.sync.aligned.16x256b.x16.b32`: 128 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x16 -> 64: "tcgen05.ld.sync.aligned.16x256b.x16.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63];
    /// `tcgen05.ld.sync.aligned.16x256b.x32.b32`: 256 columns of 16 lanes. Register `4 j + 2 h + e` of lane `l` has column
    /// `8 j + 2 (l % 4) + e` of the 16's lane `l / 4 + 8 h`: the fragment of an `mma` accumulator.
    ld_16x256b_x32 -> 128: "tcgen05.ld.sync.aligned.16x256b.x32.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63 r64 r65 r66 r67 r68 r69 r70 r71 r72 r73 r74 r75 r76 r77 r78 r79 r80 r81 r82 r83 r84 r85 r86 r87 r88 r89 r90 r91 r92 r93 r94 r95 r96 r97 r98 r99 r100 r101 r102 r103 r104 r105 r106 r107 r108 r109 r110 r111 r112 r113 r114 r115 r116 r117 r118 r119 r120 r121 r122 r123 r124 r125 r126 r127];
}

sts! {
    /// `tcgen05.st.sync.aligned.32x32b.x1.b32`: lane `l` of the warp writes 1 column of lane `l` of its 32.
    st_32x32b_x1(1): "tcgen05.st.sync.aligned.32x32b.x1.b32", [r0];
    /// `tcgen05.st.sync.aligned.32x32b.x2.b32`: lane `l` of the warp writes 2 columns of lane `l` of its 32.
    st_32x32b_x2(2): "tcgen05.st.sync.aligned.32x32b.x2.b32", [r0 r1];
    /// `tcgen05.st.sync.aligned.32x32b.x4.b32`: lane `l` of the warp writes 4 columns of lane `l` of its 32.
    st_32x32b_x4(4): "tcgen05.st.sync.aligned.32x32b.x4.b32", [r0 r1 r2 r3];
    /// `tcgen05.st.sync.aligned.32x32b.x8.b32`: lane `l` of the warp writes 8 columns of lane `l` of its 32.
    st_32x32b_x8(8): "tcgen05.st.sync.aligned.32x32b.x8.b32", [r0 r1 r2 r3 r4 r5 r6 r7];
    /// `tcgen05.st.sync.aligned.32x32b.x16.b32`: lane `l` of the warp writes 16 columns of lane `l` of its 32.
    st_32x32b_x16(16): "tcgen05.st.sync.aligned.32x32b.x16.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15];
    /// `tcgen05.st.sync.aligned.32x32b.x32.b32`: lane `l` of the warp writes 32 columns of lane `l` of its 32.
    st_32x32b_x32(32): "tcgen05.st.sync.aligned.32x32b.x32.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31];
    /// `tcgen05.st.sync.aligned.32x32b.x64.b32`: lane `l` of the warp writes 64 columns of lane `l` of its 32.
    st_32x32b_x64(64): "tcgen05.st.sync.aligned.32x32b.x64.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63];
    /// `tcgen05.st.sync.aligned.32x32b.x128.b32`: lane `l` of the warp writes 128 columns of lane `l` of its 32.
    st_32x32b_x128(128): "tcgen05.st.sync.aligned.32x32b.x128.b32", [r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12 r13 r14 r15 r16 r17 r18 r19 r20 r21 r22 r23 r24 r25 r26 r27 r28 r29 r30 r31 r32 r33 r34 r35 r36 r37 r38 r39 r40 r41 r42 r43 r44 r45 r46 r47 r48 r49 r50 r51 r52 r53 r54 r55 r56 r57 r58 r59 r60 r61 r62 r63 r64 r65 r66 r67 r68 r69 r70 r71 r72 r73 r74 r75 r76 r77 r78 r79 r80 r81 r82 r83 r84 r85 r86 r87 r88 r89 r90 r91 r92 r93 r94 r95 r96 r97 r98 r99 r100 r101 r102 r103 r104 r105 r106 r107 r108 r109 r110 r111 r112 r113 r114 r115 r116 r117 r118 r119 r120 r121 r122 r123 r124 r125 r126 r127];
}
