// Prelude: keys that sort as numbers do (Rust: ops/keys.rs).

// The smaller goes first; NaN has the largest. By bits, since drivers may take NaN as they like.
fn key_of(v: f32, ascending: bool) -> u32 {
    var bits = bitcast<u32>(v);
    if (bits & 0x7fffffffu) > 0x7f800000u {
        return 0xffffffffu;
    }
    if bits == 0x80000000u {
        bits = 0u;
    }
    let rising = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    return select(~rising, rising, ascending);
}
