//! The process's one Vulkan instance. It is made on first use and never destroyed: drivers crash
//! when an instance goes before its devices, and when anything is destroyed after their own exit
//! handlers ran (both seen on NVIDIA 580).

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, OnceLock};

use ash::vk;

use crate::error::{Error, Result};
use crate::memory::lock;

/// The oldest Vulkan whose drivers have what kernels need (storage in 16 bits, subgroups, the
/// Vulkan memory model).
pub(super) const OLDEST: u32 = vk::API_VERSION_1_2;
/// The newest features that are asked for.
pub(super) const NEWEST: u32 = vk::API_VERSION_1_3;

/// Loader and instance.
pub(super) struct Instance {
    pub(super) raw: ash::Instance,
    pub(super) entry: ash::Entry,
    /// A layer was asked for: objects get names.
    pub(super) named: bool,
    _messenger: Option<vk::DebugUtilsMessengerEXT>,
}

/// Never freed, on purpose.
static INSTANCE: OnceLock<std::result::Result<Instance, String>> = OnceLock::new();
/// What the validation layer said, if it is on.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The instance, made on the first call. A failure is remembered: drivers do not appear later.
pub(super) fn get() -> Result<&'static Instance> {
    INSTANCE
        .get_or_init(make)
        .as_ref()
        .map_err(|reason| Error::BackendUnavailable { backend: "vulkan", reason: reason.clone() })
}

/// Everything the validation layer has reported since the last call.
pub(crate) fn validation_messages() -> Vec<String> {
    std::mem::take(&mut *lock(&MESSAGES))
}

fn make() -> std::result::Result<Instance, String> {
    // SAFETY: loading runs the loader's own initialisers; it is a system library.
    let entry = unsafe { ash::Entry::load() }
        .map_err(|error| format!("no Vulkan loader could be opened ({error})"))?;
    // SAFETY: only reads what the loader knows.
    let version = unsafe { entry.try_enumerate_instance_version() }
        .map_err(|code| format!("the loader does not answer ({code:?})"))?
        .unwrap_or(vk::API_VERSION_1_0);
    if version < OLDEST {
        return Err(format!("the loader speaks Vulkan {}, 1.2 is needed", dotted(version)));
    }
    // SAFETY: as above.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(None) }
        .map_err(|code| format!("the loader does not list its extensions ({code:?})"))?;
    let has =
        |name: &CStr| extensions.iter().any(|found| found.extension_name_as_c_str() == Ok(name));
    let listening = Listening::from_env();
    let named = listening.named && has(ash::ext::debug_utils::NAME);
    let mut names = Vec::new();
    if named {
        names.push(ash::ext::debug_utils::NAME.as_ptr());
    }
    let mut flags = vk::InstanceCreateFlags::empty();
    if has(ash::khr::portability_enumeration::NAME) {
        names.push(ash::khr::portability_enumeration::NAME.as_ptr());
        flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
    }
    let application = vk::ApplicationInfo::default()
        .engine_name(c"tintype")
        .application_name(c"tintype")
        .api_version(NEWEST);
    let info = vk::InstanceCreateInfo::default()
        .application_info(&application)
        .flags(flags)
        .enabled_extension_names(&names);
    let layers = [VALIDATION.as_ptr()];
    let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut validation = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
    let info = match listening.add_layer {
        true => info.enabled_layer_names(&layers).push_next(&mut validation),
        false => info,
    };
    // SAFETY: the structures live until the call returns.
    let raw = unsafe { entry.create_instance(&info, None) }
        .map_err(|code| format!("no instance could be made ({code:?}); is a driver installed?"))?;
    let messenger = match named && listening.validated {
        true => Some(listen(&entry, &raw)?),
        false => None,
    };
    Ok(Instance { raw, entry, named, _messenger: messenger })
}

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// What the environment asks of layers.
struct Listening {
    /// Some layer is there, so names and labels are of use.
    named: bool,
    /// The validation layer is, so its messages are collected.
    validated: bool,
    /// It is asked for by our own variable, `TINTYPE_TEST_VALIDATION=1`, so we switch it on.
    add_layer: bool,
}

impl Listening {
    fn from_env() -> Listening {
        let layers = std::env::var("VK_INSTANCE_LAYERS").unwrap_or_default();
        let by_loader = layers.contains("VK_LAYER_KHRONOS_validation");
        let add_layer =
            !by_loader && std::env::var("TINTYPE_TEST_VALIDATION").is_ok_and(|value| value == "1");
        Listening {
            named: add_layer || !layers.is_empty(),
            validated: add_layer || by_loader,
            add_layer,
        }
    }
}

/// Collects what the validation layer says.
fn listen(
    entry: &ash::Entry,
    instance: &ash::Instance,
) -> std::result::Result<vk::DebugUtilsMessengerEXT, String> {
    let loader = ash::ext::debug_utils::Instance::new(entry, instance);
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::ERROR
                | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
        )
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(hear));
    // SAFETY: the callback has static life and does not unwind.
    unsafe { loader.create_debug_utils_messenger(&info, None) }
        .map_err(|code| format!("no validation messenger could be made ({code:?})"))
}

/// Called by the layer, from any thread.
unsafe extern "system" fn hear(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid data for the length of the call.
    let text = unsafe { data.as_ref().and_then(|data| data.message_as_c_str()) };
    if let Some(text) = text {
        lock(&MESSAGES).push(format!("{severity:?}: {}", text.to_string_lossy()));
    }
    vk::FALSE
}

/// A version as people write it.
pub(super) fn dotted(version: u32) -> String {
    format!("{}.{}", vk::api_version_major(version), vk::api_version_minor(version))
}
