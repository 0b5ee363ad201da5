// Prelude: elementary functions as the CPU computes them (Rust: simd/math.rs), within f32's range.
fn bounded_exp(x: f32) -> f32 {
    return exp(clamp(x, -87.0, 88.0));
}

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + bounded_exp(-x));
}

// Near 0 a polynomial (Cephes tanhf), since the quotient cancels there.
fn tanh_f32(x: f32) -> f32 {
    let z = abs(x);
    let e = bounded_exp(-2.0 * z);
    let far = (1.0 - e) / (1.0 + e);
    let s = x * x;
    var q = fma(-5.7049885e-3, s, 2.0639089e-2);
    q = fma(q, s, -5.3739715e-2);
    q = fma(q, s, 1.3331442e-1);
    q = fma(q, s, -3.3333282e-1);
    return select(select(far, -far, x < 0.0), fma(q * s, x, x), z < 0.625);
}

// Chebyshev fit (Press et al., Numerical Recipes 6.2), relative error below 1.2e-7.
fn erfc_f32(x: f32) -> f32 {
    let z = abs(x);
    let t = 1.0 / fma(0.5, z, 1.0);
    var q = fma(0.17087277, t, -0.82215223);
    q = fma(q, t, 1.4885159);
    q = fma(q, t, -1.13520398);
    q = fma(q, t, 0.27886807);
    q = fma(q, t, -0.18628806);
    q = fma(q, t, 0.09678418);
    q = fma(q, t, 0.37409196);
    q = fma(q, t, 1.00002368);
    q = fma(q, t, -1.26551223);
    let tail = t * bounded_exp(fma(-z, z, q));
    return select(tail, 2.0 - tail, x < 0.0);
}

// The functions by code (Rust: ops/pointwise/functions.rs). `x` and `y` are their parameters.
fn unary_function(code: u32, v: f32, x: f32, y: f32) -> f32 {
    switch code {
        case 0u: { return v; }
        case 1u: { return -v; }
        case 2u: { return abs(v); }
        case 3u: { return v * v; }
        case 4u: { return sqrt(v); }
        case 5u: { return 1.0 / sqrt(v); }
        case 6u: { return 1.0 / v; }
        case 7u: { return exp(v); }
        case 8u: { return log(v); }
        case 9u: { return sin(v); }
        case 10u: { return cos(v); }
        case 11u: { return tanh_f32(v); }
        case 12u: { return sigmoid(v); }
        case 13u: { return v * sigmoid(v); }
        case 14u: { return 0.5 * v * erfc_f32(v * -0.70710678); }
        case 15u: { return v * sigmoid(1.5957691 * fma(0.044715 * v * v, v, v)); }
        case 16u: { return v * sigmoid(1.702 * v); }
        case 17u: { return max(v, 0.0); }
        case 18u: { return fma(v, x, y); }
        case 19u: { return clamp(v, x, y); }
        case 20u: { return x * tanh_f32(v / x); }
        default: { return v; }
    }
}

fn binary_function(code: u32, v: f32, w: f32) -> f32 {
    switch code {
        case 0u: { return v + w; }
        case 1u: { return v - w; }
        case 2u: { return v * w; }
        case 3u: { return v / w; }
        case 4u: { return min(v, w); }
        case 5u: { return max(v, w); }
        default: { return v; }
    }
}
