use super::*;

fn at(addr: u64, shape: &[i64]) -> View {
    let shape = Dims::new(shape).unwrap();
    let (place, element) = (Place::Cuda(0), Element::BF16);
    View { addr, place, element, shape, strides: shape.contiguous(), readonly: false }
}

fn strided(view: View, strides: &[i64]) -> View {
    View { strides: Dims::new(strides).unwrap(), ..view }
}

fn options(axes: Axes) -> Options {
    Options::new(axes, false, None, [None; 2], false).unwrap()
}

/// [2, 100, 4, 64], and two heads of keys.
fn call() -> Call {
    let kv = [2, 50, 2, 64];
    let (q, k, v) = (at(0x10000, &[2, 100, 4, 64]), at(0x20000, &kv), at(0x30000, &kv));
    Call { options: options(Axes::Bshd), sequences: Sequences::Equal, q, k, v, out: None }
}

/// The same view with heads and rows exchanged, as `transpose(1, 2)`.
fn turned(view: View) -> View {
    let turn = |dims: Dims| {
        let [a, b, c, d] = dims.as_slice() else { panic!() };
        Dims::new(&[*a, *c, *b, *d]).unwrap()
    };
    View { shape: turn(view.shape), strides: turn(view.strides), ..view }
}

#[test]
fn both_orders_of_the_dimensions_are_the_same_attention() {
    let by_rows = call().check().unwrap();
    let plain = call();
    let [q, k, v] = [plain.q, plain.k, plain.v].map(turned);
    let by_heads = Call { options: options(Axes::Bhsd), q, k, v, ..plain }.check().unwrap();
    assert_eq!(by_rows.strides, by_heads.strides);
    assert_eq!(by_rows.strides[0], [25600, 64, 256]);
    assert_eq!(by_rows.strides[3], by_rows.strides[0], "the result lies as q does");
    assert_eq!(by_heads.out_shape.as_slice(), [2, 4, 100, 64]);
    assert_eq!(by_heads.out_strides.as_slice(), [25600, 64, 256, 1]);
    assert_eq!(by_heads.lse_shape.as_slice(), by_rows.lse_shape.as_slice());
    assert_eq!(by_rows.lse_shape.as_slice(), [2, 4, 100]);
    let Size { batch, heads_q, heads_kv, seq_q, seq_kv, dim, .. } = by_heads.size;
    assert_eq!([batch, heads_q, heads_kv, seq_q, seq_kv, dim], [2, 4, 2, 100, 50, 64]);
}

#[test]
fn views_are_used_in_place_or_copied() {
    let with = |strides: &[i64]| {
        let checked = Call { q: strided(call().q, strides), ..call() }.check().unwrap();
        (checked.copies[0], checked.strides[0])
    };
    // Q of a projection to queries, keys and values; and one row for all.
    assert_eq!(with(&[51200, 512, 64, 1]), (false, [51200, 64, 512]));
    assert_eq!(with(&[0, 0, 64, 1]), (false, [0, 64, 0]));
    // Elements apart, and rows that TMA does not take: the strides are those of a copy.
    for odd in [&[25600, 256, 1, 4], &[25700, 257, 64, 1]] {
        assert_eq!(with(odd), (true, [25600, 64, 256]));
    }
    // The stride of a dimension of size 1 is of no account.
    let one = |view: View| View { shape: Dims::new(&[1, 100, 1, 64]).unwrap(), ..view };
    let [q, k, v] = [call().q, call().k, call().v].map(|t| strided(one(t), &[7, 256, 3, 1]));
    let checked = Call { q, k, v, ..call() }.check().unwrap();
    assert_eq!((checked.copies, checked.strides[0]), ([false; 3], [0, 0, 256]));
    // The host's tensors are copied in any case.
    let [q, k, v] = [call().q, call().k, call().v].map(|t| View { place: Place::Host, ..t });
    let host = Call { q: strided(q, &[25700, 257, 64, 1]), k, v, ..call() };
    assert_eq!(host.check().unwrap().copies, [false; 3]);
}

#[test]
fn a_result_is_written_in_place() {
    let out = |out: View| Call { out: Some(out), ..call() }.check();
    let plain = at(0x80000, &[2, 100, 4, 64]);
    assert_eq!(out(plain).unwrap().strides[3], [25600, 64, 256]);
    let wide = strided(plain, &[51200, 512, 64, 1]);
    assert_eq!(out(wide).unwrap().strides[3], [51200, 64, 512]);
    let text = |view: View| out(view).unwrap_err().to_string();
    assert!(text(strided(plain, &[25600, 256, 1, 4])).contains("in place"));
    assert!(text(strided(plain, &[0, 256, 64, 1])).contains("its elements overlap"));
    assert!(text(View { readonly: true, ..plain }).contains("read-only"));
    assert!(text(View { addr: 0x80002, ..plain }).contains("2 bytes past a multiple of 16"));
    assert!(text(View { element: Element::F32, ..plain }).contains("float32; bfloat16, the type"));
    assert!(text(at(0x80000, &[2, 100, 4, 128])).contains("the result is [2, 100, 4, 64]"));
    // On the host it may not overlap an operand. On a GPU the plan looks at every row.
    let host = |view: View| View { place: Place::Host, ..view };
    let [q, k, v] = [call().q, call().k, call().v].map(host);
    let same = Call { q, k, v, out: Some(q), ..call() }.check().unwrap_err();
    assert!(same.to_string().contains("overlap q at 0x10000"), "{same}");
}

#[test]
fn shapes_types_and_places_are_refused_with_their_numbers() {
    let text = |call: Call| call.check().unwrap_err().to_string();
    let kv = |shape: &[i64]| Call { k: at(0x20000, shape), v: at(0x30000, shape), ..call() };
    assert!(text(Call { q: at(0, &[2, 100, 64]), ..call() }).contains("q has 3 dimensions; 4 are"));
    assert!(text(kv(&[3, 50, 2, 64])).contains("k [3, 50, 2, 64]: q is [2, 100, 4, 64]"));
    assert!(text(kv(&[2, 50, 2, 32])).contains("D = 64"));
    assert!(text(kv(&[2, 50, 3, 64])).contains("q has 4 heads, which is no multiple of k's 3"));
    assert!(text(kv(&[2, 50, 0, 64])).contains("no multiple of k's 0"));
    for dim in [0, 100, 264] {
        let [q, k, v] = [call().q, call().k, call().v].map(|t| at(t.addr, &[2, 50, 2, dim]));
        let refused = text(Call { q, k, v, ..call() });
        assert!(
            refused.contains(&format!("D is {dim}; it must be a multiple of 8, from 8")),
            "{refused}"
        );
    }
    let longer = Call { v: at(0x30000, &[2, 51, 2, 64]), ..call() };
    assert!(text(longer).contains("v [2, 51, 2, 64]: k is [2, 50, 2, 64]"));
    let far = at(0x10000, &[2, 1 << 33, 4, 64]);
    assert!(text(Call { q: far, ..call() }).contains("8589934592 is more than 2^32-1"));
    let negative = strided(call().k, &[6400, -128, 64, 1]);
    assert!(text(Call { k: negative, ..call() }).contains("negative"));
    let odd = View { addr: 0x20008, ..call().k };
    assert!(text(Call { k: odd, ..call() }).contains("k starts at 0x20008"));
    let other = View { place: Place::Cuda(1), ..call().v };
    assert!(text(Call { v: other, ..call() }).contains("v is on cuda:1 and q is on cuda:0"));
    let half = View { element: Element::F16, ..call().v };
    assert!(text(Call { v: half, ..call() }).contains("v has elements of type float16; bfloat16"));
    let wide = View { element: Element::F32, ..call().q };
    assert!(text(Call { q: wide, ..call() }).contains("float32; float16 or bfloat16"));
}

#[test]
fn windows() {
    let window = |causal, keys: Option<&[Option<i64>]>| {
        let made = Options::new(Axes::Bshd, causal, keys, [None; 2], false);
        made.map(|o| [o.left, o.right]).map_err(|e| e.to_string())
    };
    assert_eq!(window(false, None), Ok([None, None]));
    assert_eq!(window(true, None), Ok([None, Some(0)]));
    assert_eq!(window(false, Some(&[Some(5), Some(-1)])), Ok([Some(5), None]));
    assert_eq!(window(true, Some(&[Some(5), None])), Ok([Some(5), Some(0)]));
    assert_eq!(window(true, Some(&[Some(1 << 40), Some(3)])), Ok([None, Some(0)]));
    assert!(window(false, Some(&[Some(-2), None])).unwrap_err().contains("window is (-2, None)"));
    assert!(window(false, Some(&[Some(1)])).unwrap_err().contains("window is (1); (left, right)"));
    assert!(Axes::named("bsd").unwrap_err().to_string().contains("\"bsd\""));
}

#[test]
fn sizes_near_the_limits_do_not_overflow() {
    let huge = strided(at(0x10000, &[i64::MAX; 4]), &[i64::MAX; 4]);
    let all = Call { q: huge, k: huge, v: huge, out: Some(huge), ..call() };
    assert!(all.check().is_err());
    let huge = strided(at(0x10000, &[1 << 62, 1 << 30, 1 << 31, 64]), &[i64::MAX, i64::MAX, 8, 1]);
    assert!(Call { q: huge, k: huge, v: huge, out: Some(huge), ..all }.check().is_err());
    let rows = at(0x10000, &[1, u32::MAX.into(), 65536, 256]);
    let _ = Call { q: rows, k: rows, v: rows, ..call() }.check();
}

/// [100, 4, 64] in two sequences, and two heads of 50 keys.
fn packed_call(starts_q: &[i64], starts_k: &[i64]) -> Call {
    let (q, kv) = (at(0x10000, &[100, 4, 64]), [50, 2, 64]);
    let sequences = Sequences::Packed { q: starts_q.to_vec(), k: starts_k.to_vec() };
    let (k, v) = (at(0x20000, &kv), at(0x30000, &kv));
    Call { options: options(Axes::Packed), sequences, q, k, v, out: None }
}

/// Two sequences with one query each, and a cache for 128 keys; or pages of 64.
fn cache_call(keys: &[i64], block_table: Option<View>) -> Call {
    let kv = if block_table.is_some() { [9, 64, 2, 64] } else { [2, 128, 2, 64] };
    let sequences = Sequences::Cache { keys: keys.to_vec(), owner: None, block_table };
    let (q, k, v) = (at(0x10000, &[2, 1, 4, 64]), at(0x20000, &kv), at(0x30000, &kv));
    Call { options: options(Axes::Bshd), sequences, q, k, v, out: None }
}

fn table(shape: &[i64]) -> View {
    View { element: Element { code: 0, bits: 32, lanes: 1 }, ..at(0x40004, shape) }
}

#[test]
fn packed_sequences_are_one_batch() {
    let checked = packed_call(&[0, 30, 100], &[0, 0, 50]).check().unwrap();
    assert_eq!(checked.lengths, [0, 30, 100, 0, 0, 50]);
    assert_eq!(checked.strides[0], [0, 64, 256]);
    assert_eq!(checked.out_strides.as_slice(), [256, 64, 1]);
    assert_eq!(checked.lse_shape.as_slice(), [4, 100]);
    let Size { form, batch, seq_q, seq_kv, .. } = checked.size;
    assert_eq!((form, [batch, seq_q, seq_kv]), (Form::Packed, [1, 100, 50]));
    let text = |q: &[i64], k: &[i64]| packed_call(q, k).check().unwrap_err().to_string();
    let good = &[0, 1, 50];
    assert!(text(&[0, 99], &[0, 50]).contains("cu_seqlens_q ends with 99; q has 100 rows"));
    assert!(text(&[0, 3, 2, 100], good).contains("cu_seqlens_q[2] is 2; it must be at least 3"));
    assert!(text(&[-1, 100], good).contains("cu_seqlens_q begins with -1"));
    assert!(text(&[100], good).contains("cu_seqlens_q has 1 numbers"));
    assert!(text(&[], good).contains("cu_seqlens_q has 0 numbers"));
    assert!(text(&[0, 100], good).contains("cu_seqlens_k has 3 numbers, and cu_seqlens_q 2"));
    let four = Call { q: call().q, ..packed_call(&[0, 100], &[0, 50]) };
    assert!(four.check().unwrap_err().to_string().contains("q has 4 dimensions; 3 are needed"));
    let wide = Call { k: at(0x20000, &[50, 2, 32]), ..packed_call(&[0, 100], &[0, 50]) };
    assert!(wide.check().unwrap_err().to_string().contains("k [total, H, D] must have D = 64"));
}

#[test]
fn caches_and_pages() {
    let checked = cache_call(&[128, 0], None).check().unwrap();
    assert_eq!((checked.size.form, checked.size.seq_kv), (Form::Cache, 128));
    assert_eq!(checked.lengths, [128, 0]);
    let paged = cache_call(&[1, 192], Some(table(&[2, 3]))).check().unwrap();
    assert_eq!(paged.size.form, Form::Paged { pages: 9, sequence_pages: 3 });
    assert_eq!([paged.size.batch, paged.size.seq_kv], [2, 64]);
    assert_eq!(paged.block_table, Some(table(&[2, 3])));
    let text = |call: Call| call.check().unwrap_err().to_string();
    let pages = |table: View| text(cache_call(&[1, 2], Some(table)));
    assert!(text(cache_call(&[1], None)).contains("cache_seqlens has 1 numbers; q [2, 1, 4, 64]"));
    assert!(text(cache_call(&[1, 129], None)).contains("cache_seqlens[1] is 129; it must be 0 to"));
    assert!(
        text(cache_call(&[-1, 1], None)).contains("cache_seqlens[0] is -1; it must be 0 to 128")
    );
    let beyond = cache_call(&[1, 193], Some(table(&[2, 3])));
    assert!(text(beyond).contains("is 193; it must be 0 to 192, 3 pages of 64"));
    assert!(pages(table(&[3, 3])).contains("block_table [3, 3]: q has 2 sequences"));
    assert!(pages(table(&[2])).contains("block_table has 1 dimensions; exactly 2"));
    assert!(pages(at(0x40000, &[2, 3])).contains("type bfloat16; int32"));
    assert!(pages(strided(table(&[2, 3]), &[4, 1])).contains("must be adjacent"));
    let host = View { place: Place::Host, ..table(&[2, 3]) };
    assert!(pages(host).contains("block_table is on cpu and q is on cuda:0"));
    let empty = at(0x20000, &[0, 64, 2, 64]);
    let none = Call { k: empty, v: empty, ..cache_call(&[0, 0], Some(table(&[2, 3]))) };
    assert!(text(none).contains("k_cache [0, 64, 2, 64]: a cache in pages has at least one"));
    let other = at(0x20000, &[3, 128, 2, 64]);
    let more = Call { k: other, v: other, ..cache_call(&[0, 0], None) };
    assert!(text(more).contains("k_cache [B, capacity, H, D] must have B = 2 and D = 64"));
}
