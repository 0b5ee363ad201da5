// Prelude of kv_copy: row `position mod capacity` of each head of a cache becomes the head's row of
// that token. Tokens at negative positions are not written.
struct Params {
    tokens: u32,
    heads: u32,
    batch: u32,
    n: u32,
    capacity: u32,
    // 1: positions are given for each batch.
    batched: u32,
    // For the CPU kernel.
    codes: u32,
    rows_batch: u32,
    rows_head: u32,
    rows_token: u32,
    cache_batch: u32,
    cache_head: u32,
    cache_token: u32,
    start_rows: u32,
    start_positions: u32,
    // In halves, where the cache is quantized.
    start_cache: u32,
}
var<immediate> p: Params;

alias X = f32;
alias CACHE = f32;
override X_BF16: bool = false;

@group(0) @binding(0) var<storage, read> rows: array<X>;
@group(0) @binding(1) var<storage, read> positions: array<i32>;
@group(0) @binding(2) var<storage, read_write> cache: array<CACHE>;

fn value(at: u32) -> f32 {
    let stored = rows[at];
    if X_BF16 {
        return bf16_to_f32(u32(stored));
    }
    return f32(stored);
}

fn position_of(token: u32, batch: u32) -> i32 {
    return positions[p.start_positions + batch * p.batched * p.tokens + token];
}

// First element of a token's row of a head, among the rows and in the cache.
fn source(token: u32, head: u32, batch: u32) -> u32 {
    return p.start_rows + batch * p.rows_batch + head * p.rows_head + token * p.rows_token;
}

fn place_of(position: i32, head: u32, batch: u32) -> u32 {
    return batch * p.cache_batch + head * p.cache_head + u32(position) % p.capacity * p.cache_token;
}
