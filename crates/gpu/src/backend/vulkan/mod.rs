//! The Vulkan backend, through a loader opened at run time. The only place that calls Vulkan.
//!
//! Every object holds an `Arc` of the device's state (`Gpu`), which is torn down when the last one
//! goes; the instance lives as long as the process.

mod device;
mod encoder;
mod features;
mod gpu;
mod instance;
mod memory;
mod physical;
mod pipeline;
mod submit;
mod transfer;

pub(crate) use instance::validation_messages;

use std::sync::Arc;

use crate::backend::BackendDevice;
use crate::device::{DeviceInfo, DeviceOptions};
use crate::error::{Error, Result};

/// The devices that the installed drivers offer.
pub(crate) fn enumerate() -> Result<Vec<DeviceInfo>> {
    let instance = instance::get()?;
    Ok(physical::usable(instance)?.into_iter().map(|found| found.info).collect())
}

/// Opens the device that `info` describes.
pub(crate) fn open(info: &DeviceInfo, options: &DeviceOptions) -> Result<Box<dyn BackendDevice>> {
    let instance = instance::get()?;
    let found = physical::usable(instance)?
        .into_iter()
        .find(|found| found.info.index == info.index && found.info.name == info.name)
        .ok_or_else(|| Error::BackendUnavailable {
            backend: "vulkan",
            reason: format!("{} is gone", info.name),
        })?;
    let gpu = Arc::new(gpu::Gpu::open(instance, found, options.cache.clone())?);
    Ok(Box::new(device::VulkanDevice::new(gpu)?))
}

/// A failed call as an error of this crate.
fn failed(device: &str, call: &'static str, code: ash::vk::Result) -> Error {
    match code {
        ash::vk::Result::ERROR_DEVICE_LOST => {
            Error::DeviceLost { device: device.into(), reason: format!("{call} returned {code:?}") }
        }
        _ => Error::Driver { backend: "vulkan", call, code: format!("{code:?}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_device_is_told_apart_from_other_failures() {
        let lost = failed("x", "vkQueueSubmit", ash::vk::Result::ERROR_DEVICE_LOST);
        assert!(matches!(lost, Error::DeviceLost { .. }));
        let other = failed("x", "vkQueueSubmit", ash::vk::Result::ERROR_INITIALIZATION_FAILED);
        assert!(matches!(other, Error::Driver { call: "vkQueueSubmit", .. }));
    }
}
