//! Kernels as compute pipelines, from Metal source. The source is kept on disk by the front's key;
//! what Metal compiles from it, Metal itself keeps between runs.

use std::any::Any;
use std::sync::Arc;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLCompileOptions, MTLComputePipelineState, MTLDevice, MTLLanguageVersion, MTLLibrary,
    MTLMathFloatingPointFunctions, MTLMathMode, MTLSize,
};

use super::gpu::Gpu;
use super::layout::Layout;
use crate::backend::{BackendPipeline, Compiled};
use crate::error::{Error, Result};
use crate::kernel::msl;

/// A compiled kernel. Released before the device.
pub(super) struct MetalPipeline {
    pub(super) raw: Retained<ProtocolObject<dyn MTLComputePipelineState>>,
    pub(super) layout: Layout,
    pub(super) threads: MTLSize,
    _gpu: Arc<Gpu>,
}

impl MetalPipeline {
    pub(super) fn compile(gpu: &Arc<Gpu>, source: &Compiled<'_>) -> Result<Self> {
        let bad = |reason: String| Error::BadKernel { kernel: source.name.into(), reason };
        let refused = |stage: &str, error: Retained<NSError>| {
            bad(format!("{stage}: {}", error.localizedDescription()))
        };
        let (text, entry) = text(source)?;
        let layout = Layout::of(&source.parsed.module, &source.parsed.info, source.entry)
            .ok_or_else(|| bad(format!("there is no entry point {}", source.entry)))?;
        let memory: u64 = layout.group_memory.iter().map(|&bytes| u64::from(bytes)).sum();
        let most = u64::from(gpu.info().limits.max_group_memory);
        if memory > most {
            return Err(bad(format!(
                "takes {memory} bytes of threadgroup memory, each variable rounded up to 16; {} allows {most}",
                gpu.info().name
            )));
        }
        let [width, height, depth] = source.reflection.group_size.map(|count| count as usize);
        autoreleasepool(|_| {
            let library = gpu
                .device
                .newLibraryWithSource_options_error(&NSString::from_str(&text), Some(&options()))
                .map_err(|error| refused("Metal's compiler", error))?;
            let function = library
                .newFunctionWithName(&NSString::from_str(&entry))
                .ok_or_else(|| bad(format!("Metal's compiler left out {entry}")))?;
            let raw = gpu
                .device
                .newComputePipelineStateWithFunction_error(&function)
                .map_err(|error| refused("Metal's pipeline compiler", error))?;
            let (asked, most) = (width * height * depth, raw.maxTotalThreadsPerThreadgroup());
            if asked > most {
                return Err(bad(format!(
                    "has workgroups of {asked} threads; its registers leave {most} on {}",
                    gpu.info().name
                )));
            }
            let threads = MTLSize { width, height, depth };
            Ok(MetalPipeline { raw, layout, threads, _gpu: gpu.clone() })
        })
    }
}

/// The kernel's Metal source and the name of its entry point, from the disk cache or translated now.
fn text(source: &Compiled<'_>) -> Result<(String, String)> {
    let kept = source.cache.and_then(|cache| cache.get(&source.key));
    let kept = kept.and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some((entry, text)) = kept.as_deref().and_then(|kept| kept.split_once('\n')) {
        return Ok((text.to_owned(), entry.to_owned()));
    }
    let (text, entry) = msl(source.source, source.parsed)?;
    if let Some(cache) = source.cache {
        // A cache that cannot be written costs a millisecond at the next start, nothing else.
        let _unsaved = cache.put(&source.key, format!("{entry}\n{text}").as_bytes());
    }
    Ok((text, entry))
}

/// Metal 3.0 without the liberties of fast math: sums keep their order, infinities and NaN their
/// meaning, so that one device gives the same bits every time and devices differ little.
fn options() -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_0);
    // New in macOS 15 and iOS 18, where it replaces the other; a missing method ends the process.
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[allow(deprecated)]
        options.setFastMathEnabled(false);
    }
    options
}

impl BackendPipeline for MetalPipeline {
    fn as_any(&self) -> &dyn Any {
        self
    }
}
