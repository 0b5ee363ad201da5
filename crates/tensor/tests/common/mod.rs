//! Running a case on a device: random inputs between NaN, a poisoned output between guards, and
//! comparison with the float64 reference.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::time::Duration;

use half::{bf16, f16};
use tintype_gpu::{Buffer, DType, Device, DeviceOptions, Selector, list};
use tintype_tensor::ops::case::{Case, Operand, Values};
use tintype_tensor::{Tensor, quant};

/// Long enough for a software driver on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Elements of guard before and after each tensor (whole blocks of every type).
const GUARD: usize = 256;

/// NaN in every floating-point type.
const POISON: u8 = 0xff;

/// A new seed each run, printed; `TINTYPE_SEED` repeats one.
pub fn seed() -> u64 {
    let seed = std::env::var("TINTYPE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("TINTYPE_SEED={seed}");
    seed
}

/// Whether `TINTYPE_OPS`, a part of an operation's or case's name, lets it run.
pub fn selected(operation: &str, case: &str) -> bool {
    std::env::var("TINTYPE_OPS")
        .map_or(true, |wanted| operation.contains(&wanted) || case.contains(&wanted))
}

/// Every device of this machine; says which backends are missing, and fails if a backend that the
/// environment promises (`TINTYPE_TEST_VULKAN=required`) is not there.
pub fn devices() -> Vec<Device> {
    let listing = list();
    for (backend, reason) in &listing.unavailable {
        eprintln!("skipped: {backend}: {reason}");
    }
    let vulkan = listing.devices.iter().any(|info| info.backend.name() == "vulkan");
    let required = std::env::var("TINTYPE_TEST_VULKAN").is_ok_and(|value| value == "required");
    assert!(vulkan || !required, "TINTYPE_TEST_VULKAN=required, but there is no Vulkan device");
    listing
        .devices
        .iter()
        .map(|info| {
            let selector: Selector = info.selector().parse().unwrap();
            Device::open(&selector, DeviceOptions::default()).unwrap()
        })
        .collect()
}

/// The CPU device with `threads` threads.
pub fn cpu(threads: usize) -> Device {
    Device::cpu(DeviceOptions { threads, ..DeviceOptions::default() }).unwrap()
}

/// A feature that the case's types need and the device lacks.
pub fn missing(device: &Device, case: &Case) -> Option<&'static str> {
    let features = &device.info().features;
    let uses = |dtype| case.inputs.iter().chain([&case.output]).any(|o| o.dtype == dtype);
    if uses(DType::F16) && !features.f16 {
        return Some("f16");
    }
    (uses(DType::Bf16) && !features.i16).then_some("16-bit integers")
}

/// A tensor's memory image, and its values in logical order.
#[derive(Clone)]
pub struct Image {
    bytes: Vec<u8>,
    elements: usize,
    strides: Vec<usize>,
    start: usize,
}

/// Offsets of all elements in logical order.
fn offsets(shape: &[usize], strides: &[usize], start: usize) -> Vec<usize> {
    let mut all = vec![start];
    for (extent, stride) in shape.iter().zip(strides) {
        all = all.iter().flat_map(|at| (0..*extent).map(move |n| at + n * stride)).collect();
    }
    all
}

impl Image {
    /// Poison all over.
    pub fn poisoned(operand: &Operand) -> Image {
        let (strides, start, len) = operand.layout.place(&operand.shape);
        let block = operand.dtype.block_elements() as usize;
        let elements = GUARD + len.next_multiple_of(block) + GUARD;
        let bytes = operand.dtype.bytes_for(elements as u64).unwrap() as usize;
        Image { bytes: vec![POISON; bytes], elements, strides, start: start + GUARD }
    }

    pub fn offsets(&self, operand: &Operand) -> Vec<usize> {
        offsets(&operand.shape, &self.strides, self.start)
    }

    /// Random values in the operand's places; returns them as the type holds them.
    pub fn randomize(&mut self, operand: &Operand, random: &mut fastrand::Rng) -> Vec<f64> {
        if operand.dtype.is_quantized() {
            let count = operand.shape.iter().product::<usize>();
            let blocks = random_blocks(operand.dtype, count, random);
            let from = operand.dtype.bytes_for(self.start as u64).unwrap() as usize;
            self.bytes[from..from + blocks.len()].copy_from_slice(&blocks);
            return quant::reference::decode(operand.dtype, &blocks).unwrap();
        }
        let size = operand.dtype.block_bytes() as usize;
        self.offsets(operand)
            .into_iter()
            .enumerate()
            .map(|(n, at)| {
                let span = operand.range.end - operand.range.start;
                let value = match &operand.values {
                    Some(values) => values[n],
                    None => operand.range.start + span * random.f32(),
                };
                put(operand.dtype, value, &mut self.bytes[at * size..][..size]);
                get(operand.dtype, &self.bytes[at * size..][..size])
            })
            .collect()
    }

    pub fn tensor(&self, device: &Device, operand: &Operand, name: &str) -> Tensor {
        let buffer =
            device.buffer_from_bytes(operand.dtype, &[self.elements], &self.bytes).unwrap();
        Tensor::strided(&buffer.named(name), &operand.shape, &self.strides, self.start).unwrap()
    }
}

fn put(dtype: DType, value: f32, bytes: &mut [u8]) {
    match dtype {
        DType::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
        DType::F16 => bytes.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
        DType::Bf16 => bytes.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
        DType::U32 => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
        DType::I32 => bytes.copy_from_slice(&(value as i32).to_le_bytes()),
        other => panic!("{other} has no single numbers"),
    }
}

/// One number out of its bytes.
pub fn get(dtype: DType, bytes: &[u8]) -> f64 {
    let (two, four) = (bytes.first_chunk().copied(), bytes.first_chunk().copied());
    match dtype {
        DType::F32 => f32::from_le_bytes(four.unwrap()).into(),
        DType::F16 => f16::from_le_bytes(two.unwrap()).into(),
        DType::Bf16 => bf16::from_le_bytes(two.unwrap()).into(),
        DType::U32 => u32::from_le_bytes(four.unwrap()).into(),
        DType::I32 => i32::from_le_bytes(four.unwrap()).into(),
        other => panic!("{other} has no single numbers"),
    }
}

/// Random blocks with small finite scales.
pub fn random_blocks(dtype: DType, elements: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    let block = dtype.block_bytes() as usize;
    let mut bytes = vec![0u8; dtype.bytes_for(elements as u64).unwrap() as usize];
    random.fill(&mut bytes);
    for bytes in bytes.chunks_exact_mut(block) {
        for &at in quant::scale_offsets(dtype) {
            let scale = f16::from_f32((random.f32() - 0.5) * 0.02).to_le_bytes();
            bytes[at..at + 2].copy_from_slice(&scale);
        }
    }
    bytes
}

/// A case's inputs and the answer.
pub struct Data {
    inputs: Vec<Image>,
    output: Image,
    reference: Vec<f64>,
    spread: f64,
}

impl Data {
    /// Fresh inputs from a seed.
    pub fn new(case: &Case, seed: u64) -> Data {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut inputs = Vec::new();
        let mut values = Vec::new();
        for operand in &case.inputs {
            let mut image = Image::poisoned(operand);
            let data = image.randomize(operand, &mut random);
            inputs.push(image);
            values.push(Values { shape: operand.shape.clone(), data });
        }
        let output = match case.in_place {
            Some(n) => inputs[n].clone(),
            None => Image::poisoned(&case.output),
        };
        let reference = (case.reference)(&values);
        assert_eq!(reference.len(), case.output.shape.iter().product::<usize>(), "{}", case.name);
        let spread = case.spread.as_ref().map_or(0.0, |spread| spread(&values));
        Data { inputs, output, reference, spread }
    }

    /// Runs the case once; returns the output's whole memory.
    pub fn run(&self, case: &Case, device: &Device) -> Result<Vec<u8>, String> {
        let images = self.inputs.iter().zip(&case.inputs).enumerate();
        let inputs: Vec<Tensor> = images
            .map(|(n, (image, operand))| image.tensor(device, operand, &format!("input {n}")))
            .collect();
        let output = match case.in_place {
            Some(n) => inputs[n].clone(),
            None => self.output.tensor(device, &case.output, "output"),
        };
        let mut session = device.session().map_err(|error| error.to_string())?;
        (case.record)(&mut session, &inputs, &output).map_err(|error| error.to_string())?;
        let pass = session.finish().map_err(|error| error.to_string())?;
        let (_, done) = pass.run(PATIENCE).map_err(|error| error.to_string())?;
        Ok(bytes_of(&done, output.buffer()))
    }

    /// Runs twice and judges.
    pub fn check(&self, case: &Case, device: &Device) -> Result<(), String> {
        let first = self.run(case, device)?;
        self.judge(case, &first)?;
        if self.run(case, device)? != first {
            return Err("a second run gave other bytes".into());
        }
        Ok(())
    }

    fn judge(&self, case: &Case, bytes: &[u8]) -> Result<(), String> {
        let offsets = self.output.offsets(&case.output);
        let dtype = case.output.dtype;
        if dtype.is_quantized() {
            let size = case.output.shape.iter().product::<usize>() as u64;
            let from = dtype.bytes_for(self.output.start as u64).unwrap() as usize;
            let to = from + dtype.bytes_for(size).unwrap() as usize;
            let values = quant::reference::decode(dtype, &bytes[from..to]).unwrap();
            let guards = bytes[..from].iter().chain(&bytes[to..]).all(|&byte| byte == POISON);
            let right = match case.exact {
                true if values != self.reference => Err("other values".into()),
                true => Ok(()),
                false => compare(&values, &self.reference, self.spread, tolerance(dtype)),
            };
            return right.and_then(|()| match guards {
                true => Ok(()),
                false => Err("guards were written".into()),
            });
        }
        let size = dtype.block_bytes() as usize;
        let mut rest = self.output.bytes.clone();
        let mut left = bytes.to_vec();
        for at in &offsets {
            rest[at * size..][..size].fill(POISON);
            left[at * size..][..size].fill(POISON);
        }
        if let Some(at) = (0..rest.len()).find(|&at| rest[at] != left[at]) {
            return Err(format!("byte {at} beside the output was written"));
        }
        let values: Vec<f64> =
            offsets.iter().map(|at| get(dtype, &bytes[at * size..][..size])).collect();
        let tolerance = if case.exact { 0.0 } else { tolerance(dtype) };
        compare(&values, &self.reference, self.spread, tolerance)
    }
}

/// Largest ‖out−ref‖/‖ref‖ of one operation.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 1e-5,
        // Half a unit in the last place of 8 significant bits.
        DType::Bf16 => 4e-3,
        _ => 2e-3,
    }
}

/// Compares by norm, and by element so that a few wrong ones among many right ones show.
pub fn compare(
    values: &[f64],
    reference: &[f64],
    spread: f64,
    tolerance: f64,
) -> Result<(), String> {
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return Err(format!("element {at} is {}, not {}", values[at], reference[at]));
    }
    let square = |x: f64| x * x;
    let norm = reference.iter().map(|&x| square(x)).sum::<f64>().max(square(spread));
    let error = values.iter().zip(reference).map(|(x, y)| square(x - y)).sum::<f64>();
    let relative = if error == 0.0 { 0.0 } else { (error / norm).sqrt() };
    let scale = (norm / reference.len().max(1) as f64).sqrt();
    let off = |n: usize| {
        (values[n] - reference[n]).abs() > 10.0 * tolerance * (scale + reference[n].abs())
    };
    if relative > tolerance || (0..values.len()).any(off) {
        let worst = (0..values.len())
            .max_by(|&a, &b| {
                let of = |n: usize| (values[n] - reference[n]).abs();
                of(a).total_cmp(&of(b))
            })
            .unwrap_or(0);
        return Err(format!(
            "relative error {relative:.3e} (at most {tolerance:.0e}); worst at {worst}: {} for {}",
            values[worst], reference[worst]
        ));
    }
    Ok(())
}

/// All bytes of a buffer.
pub fn bytes_of(done: &tintype_gpu::Done, buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    done.read_into(&buffer.read(), &mut bytes).unwrap();
    bytes
}
