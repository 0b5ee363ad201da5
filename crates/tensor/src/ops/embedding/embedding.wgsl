// out[row] = table[ids[row]]·scale, an element a thread. An id outside the table gives NaN.
alias T = f32;
alias OUT = f32;
alias THROUGH = f32;
override T_BF16: bool = false;
override OUT_BF16: bool = false;
// Rows of Q8_0 blocks: an f16 scale, then 32 signed bytes; T is u32 words, or u16 halves.
override Q8_0: bool = false;
override HALVES: bool = false;
const GROUP: u32 = 128u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    // Rows of the table, its first element and the distance between rows (halves, where quantized).
    vocabulary: u32,
    start_table: u32,
    stride_table: u32,
    scale: f32,
    ids: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(0) var<storage, read> table: array<T>;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

fn half_at(h: u32) -> u32 {
    if HALVES {
        return u32(table[h]);
    }
    return (u32(table[h >> 1u]) >> ((h & 1u) * 16u)) & 0xffffu;
}

fn value(begin: u32, i: u32) -> f32 {
    if Q8_0 {
        let block = begin + i / 32u * 17u;
        let two = half_at(block + 1u + i % 32u / 2u);
        let q = extractBits(bitcast<i32>(two), (i & 1u) * 8u, 8u);
        return unpack2x16float(half_at(block)).x * f32(q);
    }
    let stored = table[begin + i];
    if T_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group.x + group.y * groups.x;
    if row >= p.rows {
        return;
    }
    let id = ids[row_start(p.ids, row, p.width)];
    let to = row_start(p.out, row, p.width);
    let begin = p.start_table + min(id, p.vocabulary - 1u) * p.stride_table;
    for (var i = thread; i < p.n; i += GROUP) {
        var v = value(begin, i) * p.scale;
        if id >= p.vocabulary {
            v = bitcast<f32>(0x7fc00000u | p.rows);
        }
        let at = to + i * p.out.inner;
        if OUT_BF16 { out[at] = OUT(f32_to_bf16(v)); } else { out[at] = OUT(THROUGH(v)); }
    }
}
