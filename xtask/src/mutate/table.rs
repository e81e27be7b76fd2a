//! The mutations: for each case of pipeline/tests/ui, the edits that make its mistake compile.
//!
//! A mutation removes one check in the most direct way: it adds the method to the wrong type, makes the
//! token `Copy`, makes the assertion true, removes the attribute, or unseals the trait.
//!
//! Six cases have no mutation. `15_part_read_in_flight` returns an accumulator in flight as its sums, which are another type.
//! `04_another_stage_count`, `04_keys_for_values` and `09_another_side` compare type
//! parameters, and only removing the parameter would make them compile. `07_before_init` calls an `unsafe` function of
//! a trait, and every implementation would have to change. `44_columns` needs an instruction that PTX does
//! not have.

use super::Mutation;

/// Writes the table.
macro_rules! mutations {
    ($($case:literal: $(in $file:literal, $from:literal => $to:literal;)+)+) => {
        /// All mutations, by case.
        pub const MUTATIONS: &[Mutation] = &[$(Mutation {
            case: $case,
            tests: &[],
            edits: &[$(($file, $from, $to)),+],
        }),+];
    };
}

mutations! {
    "00_no_stages":
        in "pipeline/src/ring/mod.rs",
            "assert!(STAGES >= 1 && STAGES <= 32,"
            => "assert!(STAGES <= 32,";
    "00_too_many_stages":
        in "pipeline/src/ring/mod.rs",
            "assert!(STAGES >= 1 && STAGES <= 32,"
            => "assert!(STAGES >= 1,";
    "00_state_without_stages":
        in "pipeline/src/ring/state.rs",
            "assert!(STAGES >= 1 && STAGES <= 32,"
            => "assert!(STAGES <= 32,";
    "00_no_buffers":
        in "pipeline/src/store.rs",
            "assert!(DEPTH >= 1 && DEPTH <= 32,"
            => "assert!(DEPTH <= 32,";
    "01_load_without_acquire":
        in "pipeline/src/ring/tma.rs",
            "impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {"
            => "impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {\n    pub fn load<L: LoadsInto<St>>(&mut self, loads: L) { self.acquire().load(loads); }";
    "01_load_after_peek":
        in "pipeline/src/ring/tma.rs",
            "impl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {"
            => "impl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {\n    pub fn load<L: LoadsInto<St>>(self, loads: L) { self.acquire().load(loads); }";
    "02_load_twice":
        in "pipeline/src/ring/tma.rs",
            "pub fn load<L: LoadsInto<St>>(self, loads: L) {"
            => "pub fn load<L: LoadsInto<St>>(&self, loads: L) {";
    "02_release_twice":
        in "pipeline/src/ring/consumer.rs",
            "pub fn release(self)\n    where"
            => "pub fn release(&self)\n    where";
    "03_read_without_wait":
        in "pipeline/src/ring/consumer.rs",
            "    Consumer<STAGES, St, Rd, Tag, Cl>\n{"
            => "    Consumer<STAGES, St, Rd, Tag, Cl>\n{\n    pub fn fragment<G>(&self, _group: &G, _fragment: usize) -> [f32; 8] { [0.0; 8] }";
    "03_read_after_release":
        in "pipeline/src/ring/consumer.rs",
            "pub fn release(self)\n    where"
            => "pub fn release(&self)\n    where";
    "04_slot_of_another_ring":
        in "pipeline/src/mma/accumulator.rs",
            "pub fn next(&mut self, operands: Op) -> Op::Retired {"
            => "pub fn next<Any>(&mut self, operands: Any) -> Op::Retired {";
        in "pipeline/src/mma/accumulator.rs",
            "let older = core::mem::replace(&mut self.operands, operands);"
            => "let older = core::mem::replace(&mut self.operands, unsafe { core::mem::transmute_copy(&operands) });";
    "04_empty_name":
        in "pipeline/src/ring/mod.rs",
            "            !$text.is_empty(),"
            => "            true,";
    "04_empty_name_by_hand":
        in "pipeline/src/ring/mod.rs",
            "        !N::NAME.is_empty(),"
            => "        true,";
    "04_one_text_twice":
        in "pipeline/src/cta/smem.rs",
            "assert!(repeated(R::NAMES).is_none(),"
            => "assert!(true,";
    "05_consumer_verb":
        in "pipeline/src/ring/tma.rs",
            "impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {"
            => "impl<const STAGES: usize, St: Stage, Tag: Name> Producer<STAGES, St, Tag> {\n    pub fn wait(&mut self) -> Waited { Waited }";
        in "pipeline/src/ring/tma.rs",
            "impl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {"
            => "/// No slot.\npub struct Waited;\nimpl Waited { pub fn release(self) {} }\nimpl<const STAGES: usize, St: Stage, Tag: Name> AcquirePeek<'_, STAGES, St, Tag> {";
    "05_end_of_another_role":
        in "pipeline/src/ring/consumer.rs",
            "pub fn by(self, group: &Warpgroup<Rd::Role, Cl>) -> Consumer<STAGES, St, Rd, Tag, Cl> {"
            => "pub fn by<Any: crate::cta::Role>(self, group: &Warpgroup<Any, Cl>) -> Consumer<STAGES, St, Rd, Tag, Cl> {";
    "05_end_taken_twice":
        in "pipeline/src/ring/tma.rs",
            "impl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>\n    ProducerEnd<"
            => "impl<const STAGES: usize, St, Wr, Rd, Tag, Cl> Clone for ProducerEnd<STAGES, St, Wr, Rd, Tag, Cl> { fn clone(&self) -> Self { *self } }\nimpl<const STAGES: usize, St, Wr, Rd, Tag, Cl> Copy for ProducerEnd<STAGES, St, Wr, Rd, Tag, Cl> {}\nimpl<const STAGES: usize, St: Stage, Rd: Readers, Tag: Name, Cl: ClusterShape>\n    ProducerEnd<";
    "06_another_tile":
        in "pipeline/src/tile/tensor.rs",
            "pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, T, P> {"
            => "pub fn tile<Any: TileShape>(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, Any, P> {";
        in "pipeline/src/tile/tensor.rs",
            "self.tile_of((), row, col, peers)"
            => "unsafe { core::mem::transmute_copy(&self.tile_of((), row, col, peers)) }";
    "06_a_load_missing":
        in "pipeline/src/ring/stage.rs",
            "impl<A, const COUNT: usize> Sealed for [A; COUNT] {}"
            => "impl<A: TileShape, B: TileShape, P: Sharing> LoadsInto<(A, B)> for (Load<'_, A, P>,) { unsafe fn issue(self, _data: u32, _beside: u32, _full: u32) {} }\nimpl<A, const COUNT: usize> Sealed for [A; COUNT] {}";
    "06_own_bytes":
        in "pipeline/src/ring/stage.rs",
            "pub trait Stage: Sealed + 'static {"
            => "pub trait Stage: 'static {";
    "07_init_twice":
        in "pipeline/src/cta/roles.rs",
            "impl<R: Roles, Cl: ClusterShape, P> Cta<R, Cl, P> {"
            => "impl<R, Cl, P> Clone for Cta<R, Cl, P> { fn clone(&self) -> Self { *self } }\nimpl<R, Cl, P> Copy for Cta<R, Cl, P> {}\nimpl<R: Roles, Cl: ClusterShape, P> Cta<R, Cl, P> {";
    "07_token_by_hand":
        in "pipeline/src/cta/roles.rs",
            "pub const unsafe fn enter() -> Self {"
            => "pub const fn enter() -> Self {";
    "08_skip_where_all_read":
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> TakeTurns for MmaInTurn<Ro> {}"
            => "impl<Ro: Role> TakeTurns for Mma<Ro> {}\nimpl<Ro: Role> TakeTurns for MmaInTurn<Ro> {}";
    "08_own_arrival_count":
        in "pipeline/src/ring/readers.rs",
            "pub trait Readers: Sealed + 'static {"
            => "pub trait Readers: 'static {";
    "09_chosen_phase":
        in "pipeline/src/ring/state.rs",
            "    index: u32,\n    phase: u32,\n    count: u32,\n    side: PhantomData<S>,"
            => "    pub index: u32,\n    pub phase: u32,\n    pub count: u32,\n    pub side: PhantomData<S>,";
    "09_step_by_hand":
        in "pipeline/src/ring/consumer.rs",
            "    Consumer<STAGES, St, Rd, Tag, Cl>\n{"
            => "    Consumer<STAGES, St, Rd, Tag, Cl>\n{\n    pub fn advance(&mut self) { self.state.advance(); }";
    "10_waiter_arrives":
        in "pipeline/src/barrier/order.rs",
            "impl<N: Name, F: Start> EpilogueLoads<N, F> {"
            => "impl<N: Name, F: Start> EpilogueLoads<N, F> {\n    pub fn arrive_and_step(&mut self) {}";
    "10_arriver_waits":
        in "pipeline/src/barrier/order.rs",
            "impl<N: Name> MainLoopLoads<N> {"
            => "impl<N: Name> MainLoopLoads<N> {\n    pub fn wait_and_step(&mut self) {}";
    "10_step_forgotten":
        in "pipeline/src/barrier/order.rs",
            r#"#[must_use = "an arrival is followed by `step()`: the next one is the next tile's"]
"#
            => "";
        in "pipeline/src/barrier/order.rs",
            r#"#[must_use = "a wait is followed by `step()`: the next one is the next tile's"]
"#
            => "";
    "10_arrival_before_step":
        in "pipeline/src/barrier/order.rs",
            "pub fn arrive(&mut self) -> Arrived<'_> {"
            => "pub fn arrive(&self) -> Arrived<'_> {";
    "10_own_start":
        in "pipeline/src/barrier/order.rs",
            "pub trait Start: Sealed + 'static {"
            => "pub trait Start: 'static {";
    "12_same_barrier_twice":
        in "pipeline/src/cta/smem.rs",
            "assert!(repeated(R::NAMES).is_none(),"
            => "assert!(true,";
    "12_too_many_barriers":
        in "pipeline/src/cta/smem.rs",
            "first + barriers_before(R::BARRIERS, R::BARRIERS.len()) <= 16,"
            => "first + barriers_before(R::BARRIERS, R::BARRIERS.len()) <= 99,";
    "12_id_by_hand":
        in "pipeline/src/barrier/named.rs",
            "pub struct Waiter<A, W, N> {\n    id: u32,\n    name:"
            => "pub struct Waiter<A, W, N> {\n    pub id: u32,\n    pub name:";
    "12_another_role":
        in "pipeline/src/barrier/named.rs",
            "pub fn sync<Cl: ClusterShape>(&self, _group: &Warpgroup<W, Cl>) {"
            => "pub fn sync<Any: Role, Cl: ClusterShape>(&self, _group: &Warpgroup<Any, Cl>) {";
    "14_mbarrier_as_named":
        in "pipeline/src/raw.rs",
            "impl<S: Scope, C> MBarrier<S, C> {"
            => "impl<S: Scope, C> MBarrier<S, C> {\n    pub fn sync<G>(&self, _group: &G) {}";
    "14_named_as_mbarrier":
        in "pipeline/src/barrier/named.rs",
            "impl<A: Arrivals, W: Role, N: Name> Waiter<A, W, N> {"
            => "impl<A: Arrivals, W: Role, N: Name> Waiter<A, W, N> {\n    pub fn wait(&self, _phase: u32) {}";
    "14_arrivals_as_transactions":
        in "pipeline/src/raw.rs",
            "impl<S: Scope> MBarrier<S, Transactions> {"
            => "impl<S: Scope, C> MBarrier<S, C> {";
    "15_read_in_flight":
        in "pipeline/src/mma/accumulator.rs",
            "    #[device]\n    pub fn next("
            => "    pub fn fragment(&self, fragment: usize) -> [f32; 8] { core::array::from_fn(|i| self.acc.regs[0].as_ref()[8 * fragment + i]) }\n    #[device]\n    pub fn next(";
    "15_read_half_in_flight":
        in "pipeline/src/mma/split.rs",
            "    #[device]\n    pub fn finish(self)"
            => "    pub fn fragment(&self, _fragment: usize) -> [f32; 8] { [0.0; 8] }\n    #[device]\n    pub fn finish(self)";
    "15_half_not_started":
        in "pipeline/src/mma/split.rs",
            "impl<'g, const L: usize, const R: usize, Rd, St, Tag, Cl>\n    SplitInFlight<'g, L, R, Both, Rd, St, Tag, Cl>"
            => "impl<'g, const L: usize, const R: usize, H, Rd, St, Tag, Cl>\n    SplitInFlight<'g, L, R, H, Rd, St, Tag, Cl>";
    "15_second_sum_read_in_flight":
        in "pipeline/src/mma/accumulator.rs",
            "    #[device]\n    pub fn next("
            => "    pub fn fragment(&self, fragment: usize) -> [f32; 8] { core::array::from_fn(|i| self.acc.regs[0].as_ref()[8 * fragment + i]) }\n    #[device]\n    pub fn next(";
    "15_sum_rescaled_in_flight":
        in "pipeline/src/mma/accumulator.rs",
            "impl<const N: usize, const BLOCKS: usize, S> TallAccumulator<N, BLOCKS, S>\n"
            => "impl<const N: usize, const BLOCKS: usize> Clone for TallAccumulator<N, BLOCKS> where M64<N>: Shape { fn clone(&self) -> Self { *self } }\nimpl<const N: usize, const BLOCKS: usize> Copy for TallAccumulator<N, BLOCKS> where M64<N>: Shape {}\nimpl<const N: usize, const BLOCKS: usize, S> TallAccumulator<N, BLOCKS, S>\n";
    "16_queries_released_in_flight":
        in "pipeline/src/ring/consumer.rs",
            "pub fn keep(self) -> FullSlot<St, Rd, Tag, Cl> {\n        self.slot"
            => "pub fn keep(&self) -> FullSlot<St, Rd, Tag, Cl> {\n        unsafe { core::ptr::read(&raw const self.slot) }";
    "16_kept_slot_released":
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> OrdinaryReads for Reads<Ro> {}"
            => "impl<Ro: Role> OrdinaryReads for Mma<Ro> {}\nimpl<Ro: Role> OrdinaryReads for Reads<Ro> {}";
    "16_release_unretired":
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> OrdinaryReads for Reads<Ro> {}"
            => "impl<Ro: Role> OrdinaryReads for Mma<Ro> {}\nimpl<Ro: Role> OrdinaryReads for Reads<Ro> {}";
    "16_release_in_flight":
        in "pipeline/src/ring/consumer.rs",
            "impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {"
            => "impl<St, Rd, Tag, Cl> Clone for FullSlot<St, Rd, Tag, Cl> { fn clone(&self) -> Self { *self } }\nimpl<St, Rd, Tag, Cl> Copy for FullSlot<St, Rd, Tag, Cl> {}\nimpl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {";
        in "pipeline/src/mma/accumulator.rs",
            "    operands: Op,\n    group: &'g Warpgroup<Ro, Cl>,\n}"
            => "    pub operands: Op,\n    group: &'g Warpgroup<Ro, Cl>,\n}";
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> OrdinaryReads for Reads<Ro> {}"
            => "impl<Ro: Role> OrdinaryReads for Mma<Ro> {}\nimpl<Ro: Role> OrdinaryReads for Reads<Ro> {}";
    "16_slot_in_two_batches":
        in "pipeline/src/ring/consumer.rs",
            "impl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {"
            => "impl<St, Rd, Tag, Cl> Clone for FullSlot<St, Rd, Tag, Cl> { fn clone(&self) -> Self { *self } }\nimpl<St, Rd, Tag, Cl> Copy for FullSlot<St, Rd, Tag, Cl> {}\nimpl<St: Stage, Rd: MmaReaders, Tag: Name, Cl: ClusterShape> FullSlot<St, Rd, Tag, Cl> {";
    "17_store_without_fence":
        in "pipeline/src/store.rs",
            "    #[device]\n    pub fn publish(self)"
            => "    pub fn store(self, tensor: &TensorMap<GroupTile<O>>, row: u32, col: u32) { self.publish().store(tensor, row, col); }\n    #[device]\n    pub fn publish(self)";
    "17_wgmma_reads_cp_async":
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> CpAsyncReaders for Reads<Ro> {}"
            => "impl<Rd: Readers> CpAsyncReaders for Rd {}";
    "18_write_after_publish":
        in "pipeline/src/store.rs",
            "pub fn publish(self) -> PublishedBuffer<'s, O, DEPTH, Ro, Cl, TILES> {"
            => "pub fn publish(&mut self) -> PublishedBuffer<'_, O, DEPTH, Ro, Cl, TILES> {";
        in "pipeline/src/store.rs",
            "PublishedBuffer { at: self.at, next: self.next,"
            => "PublishedBuffer { at: self.at, next: &mut *self.next,";
    "18_panel_kept":
        in "pipeline/src/store.rs",
            "impl<O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const UNACQUIRED: usize>\n    Stores<'_, O, DEPTH, Ro, Cl, UNACQUIRED>"
            => "impl<'g, O: Fragments, const DEPTH: usize, Ro: Role, Cl: ClusterShape, const UNACQUIRED: usize>\n    Stores<'g, O, DEPTH, Ro, Cl, UNACQUIRED>";
        in "pipeline/src/store.rs",
            "pub fn acquire(&mut self) -> FreeBuffer<'_, O, DEPTH, Ro, Cl> {"
            => "pub fn acquire(&mut self) -> FreeBuffer<'g, O, DEPTH, Ro, Cl> {";
        in "pipeline/src/store.rs",
            "FreeBuffer { at, next: &mut self.next, group"
            => "FreeBuffer { at, next: unsafe { &mut *(&raw mut self.next) }, group";
    "18_stores_beyond_buffers":
        in "pipeline/src/store.rs",
            "UNACQUIRED == ALL_BUT_ONE || UNACQUIRED < DEPTH,"
            => "UNACQUIRED == ALL_BUT_ONE || UNACQUIRED <= DEPTH,";
    "20_over_budget":
        in "pipeline/src/cta/smem.rs",
            "assert!(bytes <= SMEM_LIMIT,"
            => "assert!(bytes <= 2 * SMEM_LIMIT,";
    "20_bytes_by_hand":
        in "isa/src/kernel.rs",
            "assert!(Self::of_token(args).is_none(),"
            => "assert!(args.len() <= MAX_PARAMS,";
    "20_tile_rows":
        in "pipeline/src/tile/shape.rs",
            "lines.is_multiple_of(ATOM_ROWS) && lines > 0,"
            => "lines > 0,";
    "20_tile_columns":
        in "pipeline/src/tile/shape.rs",
            "bytes.is_multiple_of(Self::LINE_BYTES) && bytes > 0,"
            => "bytes > 0,";
    "21_map_of_another_tile":
        in "pipeline/src/store.rs",
            "pub fn store(self, tensor: &TensorMap<GroupTile<O>>, row: u32, col: u32) {"
            => "pub fn store<Any: TileShape<Element = O>>(self, tensor: &TensorMap<Any>, row: u32, col: u32) {";
    "21_map_of_another_element":
        in "pipeline/src/tile/tensor.rs",
            "pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, T, P> {"
            => "pub fn tile<Any: TileShape>(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, Any, P> {";
        in "pipeline/src/tile/tensor.rs",
            "self.tile_of((), row, col, peers)"
            => "unsafe { core::mem::transmute_copy(&self.tile_of((), row, col, peers)) }";
    "21_untyped_map":
        in "pipeline/src/tile/tensor.rs",
            "pub const unsafe fn from_bytes("
            => "pub const fn from_bytes(";
    "21_map_in_a_value":
        in "pipeline/src/tile/tensor.rs",
            "unsafe impl<T: TileShape, P: Sharing, const RANK: usize> AfterWait for &TensorMap<T, P, RANK> {}"
            => "unsafe impl<T: TileShape, P: Sharing, const RANK: usize> AfterWait for &TensorMap<T, P, RANK> {}\nunsafe impl<T: TileShape, P: Sharing, const RANK: usize> isa::kernel::ByValue for &TensorMap<T, P, RANK> { const LAYOUT: u64 = 1; }";
    "24_registers":
        in "pipeline/src/cta/roles.rs",
            "R::REGISTERS.is_multiple_of(8) && R::REGISTERS >= 24"
            => "R::REGISTERS >= 24";
    "24_registers_over_budget":
        in "pipeline/src/cta/roles.rs",
            "R::REGISTERS <= WARPGROUP_THREADS * R::GROUPS as u32 * share(1, R::GROUPS),"
            => "R::REGISTERS <= 2 * REGISTER_FILE,";
    "24_threads_by_hand":
        in "isa/src/kernel.rs",
            "assert!(Self::of_token(args).is_none(),"
            => "assert!(args.len() <= MAX_PARAMS,";
    "24_ctas_of_an_sm":
        in "isa/src/kernel.rs",
            "assert!(Self::of_token(args).is_none(),"
            => "assert!(args.len() <= MAX_PARAMS,";
    "31_ring_slot_as_buffer":
        in "pipeline/src/ring/tma.rs",
            "impl<St: Stage, Tag: Name> EmptySlot<St, Tag> {"
            => "impl<St: Stage, Tag: Name> EmptySlot<St, Tag> {\n    pub fn put(&mut self, _fragment: usize, _values: [f32; 8]) {}\n    pub fn publish(self) -> Self { self }\n    pub fn store<M>(self, _map: &M, _row: u32, _col: u32) {}";
    "33_bytes":
        in "pipeline/src/ring/mod.rs",
            "assert!(St::BYTES < 1 << 20,"
            => "assert!(St::BYTES < 1 << 30,";
        in "pipeline/src/cta/smem.rs",
            "assert!(bytes <= SMEM_LIMIT,"
            => "assert!(bytes <= 16 * SMEM_LIMIT,";
    "33_arrivals":
        in "pipeline/src/raw.rs",
            "ARRIVALS >= 1 && ARRIVALS <= MAX_COUNT,"
            => "ARRIVALS >= 1,";
        in "pipeline/src/barrier/order.rs",
            "ARRIVALS >= 1 && ARRIVALS <= MAX_COUNT,"
            => "ARRIVALS <= MAX_COUNT,";
    "37_peer_of_cta_barrier":
        in "pipeline/src/raw.rs",
            "impl<C> MBarrier<Cluster, C> {"
            => "impl<S, C> MBarrier<S, C> {";
    "37_wait_on_a_peer":
        in "pipeline/src/raw.rs",
            "impl<C> RemoteMBarrier<C> {"
            => "impl<C> RemoteMBarrier<C> {\n    pub fn wait(&self, _phase: u32) {}";
    "38_tokens_dropped":
        in "pipeline/src/ring/tma.rs",
            r#"#[must_use = "an acquired slot that is never loaded stops the ring: call `load`"]
"#
            => "";
        in "pipeline/src/ring/consumer.rs",
            r#"#[must_use = "a full slot that is never released stops the ring: call `release` after the last read, or give it to an accumulator"]
"#
            => "";
        in "pipeline/src/ring/consumer.rs",
            r#"#[must_use = "a retired slot that is never released stops the ring: call `release`"]
"#
            => "";
        in "pipeline/src/mma/accumulator.rs",
            r#"#[must_use = "a batch that is never finished keeps its slots: call `finish`"]
"#
            => "";
        in "pipeline/src/store.rs",
            r#"#[must_use = "a published buffer that is never stored is lost: call `store`"]
"#
            => "";
    "41_mask_of_the_other_operand":
        in "pipeline/src/tile/tensor.rs",
            "pub fn tile(&self, row: u32, col: u32, peers: Peers<P>) -> Load<'_, T, P> {"
            => "pub fn tile<Q: Sharing>(&self, row: u32, col: u32, peers: Peers<Q>) -> Load<'_, T, P> {";
        in "pipeline/src/tile/tensor.rs",
            "self.tile_of((), row, col, peers)"
            => "self.tile_of((), row, col, unsafe { core::mem::transmute_copy(&peers) })";
    "42_wait_twice":
        in "pipeline/src/barrier/cluster.rs",
            "pub fn wait(self) -> Ready<R, Cl> {"
            => "pub fn wait(&self) -> Ready<R, Cl> {";
        in "pipeline/src/barrier/cluster.rs",
            "        self.ready\n"
            => "        unsafe { core::ptr::read(&self.ready) }\n";
    "42_wait_forgotten":
        in "pipeline/src/barrier/cluster.rs",
            r#"#[must_use = "an arrival is followed by `wait`; without it the cluster's next barrier never completes"]
"#
            => "";
    "42_split_before_wait":
        in "pipeline/src/cta/roles.rs",
            "impl<R: Roles, Cl: ClusterShape> Ready<R, Cl> {"
            => "impl<R, Cl: Copy> Clone for Ready<R, Cl> { fn clone(&self) -> Self { *self } }\nimpl<R, Cl: Copy> Copy for Ready<R, Cl> {}\nimpl<R: Roles, Cl: ClusterShape> Ready<R, Cl> {";
    "43_load_before_wait":
        in "pipeline/src/grid/dependent.rs",
            "impl<T> BeforeWait<T> {\n    #[isa::forceinline]\n    pub(crate) fn of(token: T) -> Self {"
            => "impl<T> core::ops::Deref for BeforeWait<T> { type Target = T; fn deref(&self) -> &T { &self.0 } }\nimpl<T> BeforeWait<T> {\n    #[isa::forceinline]\n    pub(crate) fn of(token: T) -> Self {";
    "43_slice_before_wait":
        in "pipeline/src/grid/slice.rs",
            "_token: &impl Waited"
            => "_token: &impl Sized";
    "43_store_before_wait":
        in "pipeline/src/grid/dependent.rs",
            "impl<T> BeforeWait<T> {\n    #[isa::forceinline]\n    pub(crate) fn of(token: T) -> Self {"
            => "impl<T> core::ops::Deref for BeforeWait<T> { type Target = T; fn deref(&self) -> &T { &self.0 } }\nimpl<T> BeforeWait<T> {\n    #[isa::forceinline]\n    pub(crate) fn of(token: T) -> Self {";
    "44_no_such_tile":
        in "pipeline/src/ring/stage.rs",
            "(A, B) 1 is B behind (A);"
            => "(A, B) 1 is B behind (A);\n    (A, B) 2 is B behind (A);";
    "44_another_accumulator":
        in "pipeline/src/mma/operand.rs",
            "    const BM: usize,\n    const N: usize,\n    const K: usize,\n    const SA: usize,\n    const SB: usize,\n> MmaStage<N, S> for (TileOf<EA, BM, K, MA, SA>, TileOf<EB, N, K, MB, SB>)"
            => "    const BM: usize,\n    const BN: usize,\n    const N: usize,\n    const K: usize,\n    const SA: usize,\n    const SB: usize,\n> MmaStage<N, S> for (TileOf<EA, BM, K, MA, SA>, TileOf<EB, BN, K, MB, SB>)";
    "44_one_operand":
        in "pipeline/src/mma/operand.rs",
            "/// The tile of A has the rows of all warp groups that share it."
            => "impl<T: TileShape> Sealed for (T,) {}\nimpl<T: TileShape, const N: usize> MmaStage<N> for (T,) {}\nimpl<T: TileShape> MmaTiles for (T,) {\n    const COLUMNS: usize = T::ROWS;\n    unsafe fn issue<Rd: MmaReaders, const N: usize, const BLOCKS: usize>(_: u32, _: u32, _: usize, _: &mut [<M64<N> as Shape>::Regs; BLOCKS], _: bool) where M64<N>: Shape {}\n}\n/// The tile of A has the rows of all warp groups that share it.";
    "44_f32_operands":
        in "isa/src/wgmma/element.rs",
            "    impl Sealed for half::f16 {}"
            => "    impl Sealed for half::f16 {}\n    impl Sealed for f32 {}\n    impl<M: super::Major> super::OperandMajor<M> for f32 {}\n    impl super::Operand for f32 { const TYPE: super::OperandType = super::OperandType::F16; }\n    impl super::MulBy<f32> for f32 { type Sum = f32; }";
    "44_slot_of_reads":
        in "pipeline/src/ring/readers.rs",
            "impl<Ro: Role> MmaReaders for Mma<Ro> {}"
            => "impl<Ro: Role> MmaReaders for Reads<Ro> {}\nimpl<Ro: Role> MmaReaders for Mma<Ro> {}";
    "44_role_as_writers":
        in "pipeline/src/ring/mod.rs",
            "impl Sealed for Tma {}"
            => "impl<Ro: Role> Sealed for Ro {}\nimpl<Ro: Role, St: Stage> Writers<St> for Ro { const ARRIVALS: usize = 4 * Ro::GROUPS; }\nimpl Sealed for Tma {}";
    "44_role_as_readers":
        in "pipeline/src/ring/mod.rs",
            "impl Sealed for Tma {}"
            => "impl<Ro: Role> Sealed for Ro {}\nimpl<Ro: Role> Readers for Ro { type Role = Ro; const GROUPS: usize = 1; const ARRIVALS: usize = 1; const MULTICAST: bool = false; const ASYNC: bool = false; }\nimpl Sealed for Tma {}";
    "44_element":
        in "pipeline/src/tile/shape.rs",
            "    f32 as F32;"
            => "    f32 as F32;\n    u8 as U8;";
    "44_values_k_major":
        in "pipeline/src/mma/operand.rs",
            "impl<const N: usize, E, const K: usize, MB, const SB: usize, Rd, Tag, Cl> Operands<N>\n    for (AFragment<E, K>, FullSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>)"
            => "impl<const N: usize, const R: usize, const C: usize, E, const K: usize, MB, const SB: usize, Rd, Tag, Cl> Operands<N>\n    for (AFragment<E, K>, FullSlot<(TileOf<E, R, C, MB, SB>,), Rd, Tag, Cl>)";
        in "pipeline/src/mma/operand.rs",
            "type Retired = RetiredSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>;"
            => "type Retired = RetiredSlot<(TileOf<E, R, C, MB, SB>,), Rd, Tag, Cl>;";
    "44_another_depth":
        in "pipeline/src/mma/operand.rs",
            "impl<const N: usize, E, const K: usize, MB, const SB: usize, Rd, Tag, Cl> Operands<N>\n    for (AFragment<E, K>, FullSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>)"
            => "impl<const N: usize, const R: usize, const C: usize, E, const K: usize, MB, const SB: usize, Rd, Tag, Cl> Operands<N>\n    for (AFragment<E, K>, FullSlot<(TileOf<E, R, C, MB, SB>,), Rd, Tag, Cl>)";
        in "pipeline/src/mma/operand.rs",
            "type Retired = RetiredSlot<(TileOf<E, N, K, MB, SB>,), Rd, Tag, Cl>;"
            => "type Retired = RetiredSlot<(TileOf<E, R, C, MB, SB>,), Rd, Tag, Cl>;";
    "44_operands_of_another_role":
        in "pipeline/src/mma/accumulator.rs",
            "    pub fn start<Op, Ro, Cl>(\n        group: &Warpgroup<Ro, Cl>,\n        operands: Op,\n    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, 0, S>\n    where\n        Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,"
            => "    pub fn start<Op, Ro, Cl>(\n        group: &Warpgroup<Ro, Cl>,\n        operands: Op,\n    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, 0, S>\n    where\n        Op: Operands<N, BLOCKS, S>,";
        in "pipeline/src/mma/accumulator.rs",
            "    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>\n    where\n        Op: Operands<N, BLOCKS, S, Role = Ro, Cluster = Cl>,"
            => "    ) -> InFlight<'_, N, BLOCKS, Op, Ro, Cl, NEWER, S>\n    where\n        Op: Operands<N, BLOCKS, S>,";
    "44_f32_weights":
        in "isa/src/wgmma/element.rs",
            "    impl Sealed for half::f16 {}"
            => "    impl Sealed for half::f16 {}\n    impl Sealed for f32 {}\n    impl<M: super::Major> super::OperandMajor<M> for f32 {}\n    impl super::Operand for f32 { const TYPE: super::OperandType = super::OperandType::F16; }\n    impl super::MulBy<f32> for f32 { type Sum = f32; }";
        in "pipeline/src/mma/a_fragment.rs",
            "impl Pack for f16 {"
            => "impl Pack for f32 { fn pack(low: f32, _high: f32) -> u32 { low.to_bits() } }\nimpl Pack for f16 {";
    "44_e4m3_mn_major":
        in "isa/src/wgmma/element.rs",
            "impl OperandMajor<KMajor> for F8E4M3 {}"
            => "impl<M: Major> OperandMajor<M> for F8E4M3 {}";
    "44_mixed_elements":
        in "isa/src/wgmma/element.rs",
            "F8E4M3 as E4m3, by F8E4M3, F8E5M2 => f32;"
            => "F8E4M3 as E4m3, by F8E4M3, F8E5M2, bf16 => f32;";
    "48_fragment_in_two_batches":
        in "pipeline/src/mma/a_fragment.rs",
            "impl<E, const K: usize> AFragment<E, K>\n"
            => "impl<E, const K: usize> Clone for AFragment<E, K> where M64<K>: AShape { fn clone(&self) -> Self { *self } }\nimpl<E, const K: usize> Copy for AFragment<E, K> where M64<K>: AShape {}\nimpl<E, const K: usize> AFragment<E, K>\n";
    "48_fragment_changed":
        in "pipeline/src/mma/a_fragment.rs",
            "    regs: <M64<K> as AShape>::Regs,\n    element"
            => "    pub regs: <M64<K> as AShape>::Regs,\n    element";
    "49_turn_passed_on_twice":
        in "pipeline/src/barrier/named_sequence.rs",
            "pub fn pass_on(self) {"
            => "pub fn pass_on(&self) {";
    "49_second_turn":
        in "pipeline/src/barrier/named_sequence.rs",
            "pub fn wait(&mut self) -> NamedTurn<'_> {"
            => "pub fn wait<'t>(&mut self) -> NamedTurn<'t> {";
    "49_turn_kept":
        in "pipeline/src/barrier/named_sequence.rs",
            r#"#[must_use = "a turn that is never passed on stops the sequence: call `pass_on`"]
"#
            => "";
    "49_group_of_another_role":
        in "pipeline/src/barrier/named_sequence.rs",
            "pub fn by<Cl: ClusterShape>(self, group: &Warpgroup<Ro, Cl>) -> NamedTurns<'_, Ro, N, Cl> {"
            => "pub fn by<Any: Role, Cl: ClusterShape>(self, group: &Warpgroup<Any, Cl>) -> NamedTurns<'_, Any, N, Cl> {";
    "44_scales_of_a_group":
        in "pipeline/src/mma/scale.rs",
            "impl<A, B, V, Ro: Role, const COUNT: usize, const UNIT: usize> PromoteTiles<MmaReads<Ro>>"
            => "impl<A, B, V, Rd: MmaReaders, const COUNT: usize, const UNIT: usize> PromoteTiles<Rd>";
    "44_scales_of_columns_of_a_group":
        in "pipeline/src/mma/scale.rs",
            "impl<A, B, V, Ro: Role, const LANE: usize> PromoteTiles<MmaReads<Ro>>"
            => "impl<A, B, V, Rd: MmaReaders, const LANE: usize> PromoteTiles<Rd>";
    "51_accumulator_not_started":
        in "pipeline/src/tensor/multiply.rs",
            "    EmptyAccumulator<N, Tag, G, FACTORS>
{"
            => "    EmptyAccumulator<N, Tag, G, FACTORS>
{
    pub fn commit(self) {}";
    "51_accumulator_committed_twice":
        in "pipeline/src/tensor/multiply.rs",
            "pub fn commit(self) {"
            => "pub fn commit(&self) {";
    "51_accumulator_read_after_release":
        in "pipeline/src/tensor/read.rs",
            "pub fn release(self) {"
            => "pub fn release(&self) {";
    "51_slot_multiplied_twice":
        in "pipeline/src/ring/umma.rs",
            "impl<St: Stage, Tag: Name, G: CtaGroup> UmmaSlot<St, Tag, G> {"
            => "impl<St, Tag, G> Clone for UmmaSlot<St, Tag, G> { fn clone(&self) -> Self { *self } }\nimpl<St, Tag, G> Copy for UmmaSlot<St, Tag, G> {}\nimpl<St: Stage, Tag: Name, G: CtaGroup> UmmaSlot<St, Tag, G> {";
    "51_slot_released_by_hand":
        in "pipeline/src/ring/umma.rs",
            "impl<St: Stage, Tag: Name, G: CtaGroup> UmmaSlot<St, Tag, G> {"
            => "impl<St: Stage, Tag: Name, G: CtaGroup> UmmaSlot<St, Tag, G> {\n    pub fn release(self) { self.release_by_commit(); }";
    "51_operands_of_f32":
        in "isa/src/tcgen05/kind.rs",
            "f32 = 1, Tf32 = 2;"
            => "f32 = 1, Tf32 = 2, f32 = 2;";
    "51_operands_of_two_kinds":
        in "pipeline/src/tensor/multiply.rs",
            "UmmaTiles<N, OneSm, FACTORS>
    for (A, B)
where
    A::Element: Operand<Kind: Kind<Sum = f32>>,
    B::Element: Operand<Kind = <A::Element as Operand>::Kind>,"
            => "UmmaTiles<N, OneSm, FACTORS>
    for (A, B)
where
    A::Element: Operand<Kind: Kind<Sum = f32>>,
    B::Element: Operand,";
        in "isa/src/tcgen05/descriptor.rs",
            "B: Operand<Kind = A::Kind>>"
            => "B: Operand>";
    "51_sums_of_integers":
        in "pipeline/src/tensor/multiply.rs",
            "UmmaTiles<N, OneSm, FACTORS>
    for (A, B)
where
    A::Element: Operand<Kind: Kind<Sum = f32>>,"
            => "UmmaTiles<N, OneSm, FACTORS>
    for (A, B)
where
    A::Element: Operand,";
    "51_slot_of_half_the_rows":
        in "pipeline/src/tensor/multiply.rs",
            "A::ROWS == TENSOR_ROWS,"
            => "A::ROWS <= TENSOR_ROWS,";
    "51_columns_of_another_accumulator":
        in "pipeline/src/tensor/multiply.rs",
            "B::ROWS == b_rows,"
            => "B::ROWS <= b_rows,";
    "51_two_groups_read":
        in "pipeline/src/tensor/accumulators.rs",
            "Ro::GROUPS == 1,"
            => "Ro::GROUPS <= 2,";
    "51_accumulator_never_committed":
        in "pipeline/src/tensor/multiply.rs",
            r#"#[must_use = "an accumulator that is never committed stops the ring: call `commit`"]
"#
            => "";
    "51_accumulator_never_released":
        in "pipeline/src/tensor/read.rs",
            r#"#[must_use = "an accumulator that is never released stops the ring: call `release`"]
"#
            => "";
    "51_read_by_another_role":
        in "pipeline/src/tensor/read.rs",
            "pub fn by<Cl: ClusterShape>(
        self,
        group: &Warpgroup<Ro, Cl>,
    ) -> AccumulatorReader<'_, STAGES, N, Ro, Tag, Cl, G> {"
            => "pub fn by<Any: Role, Cl: ClusterShape>(
        self,
        group: &Warpgroup<Any, Cl>,
    ) -> AccumulatorReader<'_, STAGES, N, Any, Tag, Cl, G> {";
    "51_accumulator_of_another_ring":
        in "pipeline/src/tensor/accumulators.rs",
            "pub fn acquire(&mut self) -> EmptyAccumulator<N, Tag, G, FACTORS> {"
            => "pub fn acquire<Any: Name>(&mut self) -> EmptyAccumulator<N, Any, G, FACTORS> {";
    "51_too_many_columns":
        in "pipeline/src/tensor/accumulators.rs",
            "STAGES * N <= 512,"
            => "STAGES * N <= 1024,";
    "52_slot_of_a_pair_alone":
        in "pipeline/src/tensor/multiply.rs",
            "pub fn start<St: UmmaTiles<N, G, FACTORS>, R: Name>(
        self,
        slot: UmmaSlot<St, R, G>,"
            => "pub fn start<St: UmmaTiles<N, G, FACTORS>, R: Name, Any: CtaGroup>(
        self,
        slot: UmmaSlot<St, R, Any>,";
    "52_multiplied_by_either_cta":
        in "pipeline/src/ring/umma.rs",
            "    pub fn by_leader(self,"
            => "    pub fn by_one(self, one: &Elected<Ro, Cl>) -> UmmaConsumer<STAGES, St, Tag, TwoSm> {
        self.by_leader(&Leader::new(one.coord()))
    }
    #[isa::forceinline]
    pub fn by_leader(self,";
    "52_pair_in_another_cluster":
        in "pipeline/src/ring/mod.rs",
            "!Rd::PAIR || is_pair::<Cl>(),"
            => "!Rd::PAIR || is_pair::<Cl>() || Cl::M == 4,";
    "52_loads_of_one_cta":
        in "pipeline/src/ring/mod.rs",
            "Wr::PAIR == Rd::PAIR,"
            => "Wr::PAIR <= Rd::PAIR,";
    "52_all_of_b_in_each_cta":
        in "pipeline/src/tensor/multiply.rs",
            "B::ROWS == b_rows,"
            => "B::ROWS >= b_rows,";
    "52_no_columns_for_factors":
        in "pipeline/src/tensor/scaled.rs",
            "const BLOCKS: usize>
    UmmaTiles<N, G, FACTOR_COLUMNS> for"
            => "const BLOCKS: usize, const FACTORS: usize>
    UmmaTiles<N, G, FACTORS> for";
        in "pipeline/src/tensor/scaled.rs",
            "<Self as UmmaTiles<N, G, FACTOR_COLUMNS>>::INSTRUCTION"
            => "<Self as UmmaTiles<N, G, FACTORS>>::INSTRUCTION";
    "52_factors_of_another_format":
        in "pipeline/src/tensor/scaled.rs",
            "4 * BLOCKS == 128 / K_BYTES * factors,"
            => "4 * BLOCKS >= 128 / K_BYTES * factors,";
    "53_tiles_taken_twice":
        in "pipeline/src/grid/launch_control.rs",
            "pub fn by<R: Role>(self, one: &Elected<R, Cl>) -> ClcTiles<STAGES, Tag, Cl> {"
            => "pub fn by<R: Role>(&self, one: &Elected<R, Cl>) -> ClcTiles<STAGES, Tag, Cl> {";
    "53_tiles_of_another_role":
        in "pipeline/src/grid/launch_control.rs",
            "pub fn by(self, group: &Warpgroup<Ro, Cl>)"
            => "pub fn by<Any: Role>(self, group: &Warpgroup<Any, Cl>)";
    "53_asked_twice":
        in "pipeline/src/grid/launch_control.rs",
            "pub fn by<R: Role>(self, one: &Elected<R, Cl>) {"
            => "pub fn by<R: Role>(&self, one: &Elected<R, Cl>) {";
}
