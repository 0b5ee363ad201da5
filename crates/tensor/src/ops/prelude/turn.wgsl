// Prelude: cosine and sine of a product, exact to a few units for angles up to some ten thousand
// (Rust: simd/math.rs).
// `v` less the nearest multiple of π/2, and that multiple. The constant in three parts (Cephes), whose
// products with k < 2^13 are exact, without a fused operation: drivers may take it apart.
fn reduced(v: f32) -> vec2<f32> {
    let k = round(v * 0.63661975);
    return vec2<f32>(((v - k * 1.5703125) - k * 4.837513e-4) - k * 7.54979e-8, k);
}

// Cosine and sine of position·frequency. Both in parts of 12 bits, whose products are exact, each
// less multiples of π/2; then polynomials (Cephes sinf). Drivers' own are exact to 2^-11 only.
fn turn(position: f32, frequency: f32) -> vec2<f32> {
    let far = bitcast<f32>(bitcast<u32>(position) & 0xfffff000u);
    let near = position - far;
    let coarse = bitcast<f32>(bitcast<u32>(frequency) & 0xfffff000u);
    let fine = frequency - coarse;
    let parts = reduced(far * coarse) + reduced(far * fine) + reduced(near * coarse) + reduced(near * fine);
    let last = reduced(parts.x);
    let r = last.x;
    let k = parts.y + last.y;
    let z = r * r;
    let sine = fma(r * z, fma(z, fma(z, -1.9515296e-4, 8.332161e-3), -0.16666654), r);
    let cosine = fma(z * z, fma(z, fma(z, 2.4433157e-5, -1.3887316e-3), 4.1666646e-2), fma(z, -0.5, 1.0));
    switch u32(i32(k)) & 3u {
        case 0u: { return vec2<f32>(cosine, sine); }
        case 1u: { return vec2<f32>(-sine, cosine); }
        case 2u: { return vec2<f32>(-cosine, -sine); }
        default: { return vec2<f32>(sine, -cosine); }
    }
}
