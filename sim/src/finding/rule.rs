//! The rules that the model enforces, each with a code that stays.

/// Declares [`Rule`] with its codes and titles in one place.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $title:literal;)*) => {
        /// A rule of the machine or of the barrier protocol that a kernel can break.
        ///
        /// Codes are stable: a rule keeps its number, and a retired number is not given again.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $name,)*
        }

        impl Rule {
            /// Every rule, by code.
            pub const ALL: &[Self] = &[$(Self::$name),*];
            /// The stable code, `WP001` for example.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => concat!("WP", $code),)* }
            }
            /// The chapter of the documentation that says what the rule is about, with its folder in
            /// the repository.
            pub const fn chapter(self) -> &'static str {
                match self {
                    Self::NamedBarrier => "docs/semantics.md#named-barriers",
                    Self::CopyInFlight
                    | Self::WgmmaReads
                    | Self::StoreReads
                    | Self::Proxy
                    | Self::MapUnseen => "docs/semantics.md#proxies",
                    Self::RegistersInFlight | Self::RegistersUnfenced => {
                        "docs/semantics.md#registers-of-wgmma"
                    }
                    Self::SharedRace | Self::GlobalRace | Self::Scope | Self::TwoWriters => {
                        "docs/semantics.md#data-races"
                    }
                    Self::Dependent => "docs/semantics.md#dependent-launches",
                    Self::TensorAlloc
                    | Self::TensorBounds
                    | Self::TensorLeak
                    | Self::TensorLanes
                    | Self::TensorRace
                    | Self::TensorFence
                    | Self::TensorRegisters
                    | Self::TensorUnwritten
                    | Self::TensorPair
                    | Self::LaunchControl => "docs/blackwell.md#rules",
                    Self::Deadlock
                    | Self::TxLeftOver
                    | Self::TxOverrun
                    | Self::TooManyArrivals
                    | Self::CountRange
                    | Self::NotABarrier
                    | Self::InitTwice
                    | Self::InvalInUse
                    | Self::BarrierMemory
                    | Self::Lapped
                    | Self::InitUnseen
                    | Self::MidPhase
                    | Self::NoComplete => "docs/semantics.md#mbarrier",
                    _ => "docs/misuses.md#reported-by-the-sm-model",
                }
            }
            /// One line that says what is wrong.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

rules! {
    /// Threads wait for each other, or for an arrival that never comes.
    Deadlock = "001", "deadlock: no thread can go on";
    /// All arrivals came, but the transaction count is not zero and nothing is in flight.
    TxLeftOver = "002", "a phase can't complete: expected bytes that never land";
    /// More bytes landed on a phase than were expected of it.
    TxOverrun = "003", "more bytes landed than the barrier expects";
    /// An arrival on a phase that has none pending.
    TooManyArrivals = "004", "an arrival beyond the barrier's count";
    /// Counts outside the object's fields.
    CountRange = "005", "an mbarrier count out of range";
    /// An operation on memory that holds no mbarrier.
    NotABarrier = "006", "an mbarrier operation where there is no mbarrier";
    /// `init` over a live mbarrier.
    InitTwice = "007", "an mbarrier initialised twice";
    /// `inval` while the barrier is in use.
    InvalInUse = "008", "an mbarrier invalidated while in use";
    /// Ordinary access to the bytes of a live mbarrier.
    BarrierMemory = "009", "an ordinary access to an mbarrier's memory";
    /// A waiter that fell two phases behind, or passed two phases early.
    Lapped = "010", "a wait passed, or failed, by a phase two away";
    /// `arrive.noComplete` that completes.
    NoComplete = "011", "arrive.noComplete would complete the phase";
    /// A remote address where only the own CTA's is allowed.
    RemoteAddress = "012", "a remote address in an instruction of the own CTA";
    /// Access outside shared memory.
    SharedBounds = "013", "an access outside shared memory";
    /// Access outside every allocation.
    GlobalBounds = "014", "an access outside global memory";
    /// Misaligned address or size.
    Misaligned = "015", "a misaligned address or size";
    /// Read of shared memory that nobody wrote.
    Uninitialised = "016", "a read of uninitialised shared memory";
    /// Memory that a copy in flight is still writing.
    CopyInFlight = "017", "use of shared memory that a copy in flight is writing";
    /// Memory that a wgmma in flight is still reading.
    WgmmaReads = "018", "shared memory overwritten while a wgmma reads it";
    /// Memory that a bulk store in flight is still reading.
    StoreReads = "019", "shared memory overwritten while a bulk store reads it";
    /// Lanes of a warp did not execute the same aligned instruction.
    Diverged = "020", "an aligned instruction in divergent code";
    /// The warps of a warp group did not execute the same wgmma.
    BrokenWarpgroup = "021", "wgmma from a broken warp group";
    /// Misused named barrier.
    NamedBarrier = "022", "a named barrier used against its rules";
    /// `barrier.cluster` halves out of order.
    ClusterBarrier = "023", "cluster barrier halves out of order";
    /// setmaxnreg's operand or direction.
    Registers = "024", "setmaxnreg against its rules";
    /// A tensor map that is none, or used with another rank.
    TensorMap = "025", "a tensor map that does not fit the instruction";
    /// A wgmma descriptor that does not describe operands.
    Descriptor = "026", "a wgmma descriptor that describes no operand";
    /// A peer touched a CTA that has exited or not started.
    PeerGone = "027", "shared memory of a CTA that is not running";
    /// Work in flight when its thread or CTA exits.
    InFlightAtExit = "028", "work in flight at exit";
    /// A panic in kernel code.
    Panic = "029", "a kernel thread panicked";
    /// `trap`.
    Trap = "030", "a kernel thread trapped";
    /// The step limit of the configuration.
    StepLimit = "031", "the step limit is reached";
    /// A launch that no GPU would take.
    Launch = "032", "a launch that can't be";
    /// An operand outside its instruction's range.
    Operand = "033", "an operand outside the instruction's range";
    /// Two accesses to shared memory, one a write, that nothing orders.
    SharedRace = "034", "a data race in shared memory";
    /// The same in global memory.
    GlobalRace = "035", "a data race in global memory";
    /// An asynchronous operation on what was written through the generic proxy, or by another CTA's
    /// asynchronous operation.
    Proxy = "036", "a write not fenced for the async proxy";
    /// Ordered by operations of a scope that does not reach.
    Scope = "037", "a scope too narrow: .cta where .cluster is needed";
    /// Bytes of global memory written by two CTAs that nothing orders.
    TwoWriters = "038", "two CTAs write the same bytes of global memory";
    /// An mbarrier used before its initialisation has reached the user.
    InitUnseen = "039", "an mbarrier used before its initialisation is visible";
    /// Registers that a wgmma in flight writes or reads, used or changed.
    RegistersInFlight = "040", "use of registers that a wgmma in flight holds";
    /// Registers of a wgmma accessed without the fence that orders this.
    RegistersUnfenced = "041", "registers of a wgmma used without wgmma.fence or fence_operand";
    /// A TMA instruction with a tensor map whose change the tensormap proxy need not see.
    MapUnseen = "042", "a tensor map used before its change is visible to the tensormap proxy";
    /// Arrivals, but not all, of a phase that nobody will complete.
    MidPhase = "043", "a barrier left in the middle of a phase at exit";
    /// An address computed from one region of shared memory that points into another.
    LeavesRegion = "044", "an access that leaves its region of shared memory";
    /// A dependent grid and the one ahead of it access the same bytes, one of them writes, and
    /// `griddepcontrol.wait` does not lie between.
    Dependent = "045", "an access that a dependent launch does not order";
    /// A slot or buffer that was taken and never given back.
    LostToken = "046", "a token dropped: a slot or buffer that was never given back";
    /// `tcgen05.alloc` and `dealloc`: how many columns, by whom, how often.
    TensorAlloc = "047", "tensor memory allocated or freed against its rules";
    /// Columns that no allocation has.
    TensorBounds = "048", "use of tensor memory that is not allocated";
    /// An allocation that outlives its CTA.
    TensorLeak = "049", "tensor memory that is never freed";
    /// Lanes of other warps.
    TensorLanes = "050", "lanes of tensor memory that the warp does not own";
    /// Two tcgen05 instructions on the same cells, of which the first may not be over.
    TensorRace = "051", "use of tensor memory that a tcgen05 instruction in flight uses";
    /// The same, ordered but for a `tcgen05.fence`.
    TensorFence = "052", "tensor memory used without the tcgen05.fence that orders this";
    /// Registers of a `tcgen05.ld` in flight.
    TensorRegisters = "053", "registers of a tcgen05.ld used before tcgen05.wait::ld";
    /// Tensor memory that nobody wrote.
    TensorUnwritten = "054", "a read of tensor memory that nothing has written";
    /// `.cta_group::2`: who issues it, in which cluster, and how long both CTAs run.
    TensorPair = "055", "a pair of CTAs that is none, or that one of them leaves";
    /// `clusterlaunchcontrol`: a request after a failed one, a query of what is no answer.
    LaunchControl = "056", "launch control used against its rules";
    /// Read of global memory that nobody wrote.
    GlobalUnwritten = "057", "a read of uninitialised global memory";
}
