// Prelude of embedding: out[row] = table[ids[row]]·scale. An id outside the table gives NaN. A table
// larger than a binding comes in parts, each of which writes the rows whose ids it holds.
alias OUT = f32;
alias THROUGH = f32;
override OUT_BF16: bool = false;
const GROUP: u32 = 128u;

struct Params {
    width: u32,
    rows: u32,
    n: u32,
    codes: u32,
    unit_rows: u32,
    // Rows of the whole table; those of this part; its first element and the distance between rows
    // (halves, where quantized).
    vocabulary: u32,
    first: u32,
    end: u32,
    start_table: u32,
    stride_table: u32,
    scale: f32,
    ids: Place,
    out: Place,
}
var<immediate> p: Params;

@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<OUT>;

// Whether this part writes the row of `id`; the first writes those outside the table.
fn here(id: u32) -> bool {
    if id >= p.vocabulary {
        return p.first == 0u;
    }
    return id >= p.first && id < p.end;
}

fn put(id: u32, at: u32, value: f32) {
    var v = value * p.scale;
    if id >= p.vocabulary {
        v = bitcast<f32>(0x7fc00000u | p.rows);
    }
    if OUT_BF16 { out[at] = OUT(f32_to_bf16(v)); } else { out[at] = OUT(THROUGH(v)); }
}
