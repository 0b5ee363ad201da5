//! The Metal backend. The only place that calls Metal, and it knows nothing of what kernels compute.
//!
//! Every object holds an `Arc` of the device's state (`Gpu`), so Metal's device and queue are
//! released last. Nothing here is static: when the last handle goes, Metal has nothing of ours.

mod device;
mod encoder;
mod failure;
mod gpu;
mod layout;
mod memory;
mod physical;
mod pipeline;
mod recording;
mod signal;
mod submit;

use std::sync::Arc;

use objc2::rc::autoreleasepool;

use crate::backend::BackendDevice;
use crate::device::{DeviceInfo, DeviceOptions};
use crate::error::{Error, Result};

/// The devices that the system offers. A system without one is no error.
pub(crate) fn enumerate() -> Result<Vec<DeviceInfo>> {
    autoreleasepool(|_| {
        let raw = physical::all();
        Ok(raw.iter().enumerate().map(|(at, raw)| physical::describe(raw, at)).collect())
    })
}

/// Opens the device that `info` describes. The options concern other parts: the front's registry
/// keeps the cache and the front the limit.
pub(crate) fn open(info: &DeviceInfo, _: &DeviceOptions) -> Result<Box<dyn BackendDevice>> {
    autoreleasepool(|_| {
        let found = physical::all().into_iter().enumerate().find_map(|(at, raw)| {
            let found = physical::describe(&raw, at);
            (found.index == info.index && found.name == info.name).then_some((raw, found))
        });
        let (raw, found) = found.ok_or_else(|| Error::BackendUnavailable {
            backend: "metal",
            reason: format!("{} is gone", info.name),
        })?;
        Ok(Box::new(device::MetalDevice::new(Arc::new(gpu::Gpu::open(raw, found)?))) as _)
    })
}

/// A call that returned nil without saying why.
fn nil(call: &'static str) -> Error {
    Error::Driver { backend: "metal", call, code: "nil".into() }
}

/// What the front shares between threads is fit for it; this does not compile otherwise.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn sent<T: Send>() {}
    shared::<gpu::Gpu>();
    shared::<device::MetalDevice>();
    shared::<memory::MetalMemory>();
    shared::<pipeline::MetalPipeline>();
    shared::<signal::Signal>();
    sent::<submit::MetalPass>();
};
