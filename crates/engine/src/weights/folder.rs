//! Folders of weights: shards named by an index, and pipelines as the diffusers library saves
//! them. It must not know file formats, and follows no name out of the folder.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::error::{Reason, Result, WeightError};
use super::map::Source;
use super::pairs::Pairs;
use super::{Format, OpenOptions, Parts, read};

/// Largest JSON file that is read: indexes of 100 000 tensors take 10 MiB.
const JSON_LIMIT: u64 = 64 << 20;
/// Most shards of one index.
const SHARD_LIMIT: usize = 4096;
/// Most components of a pipeline.
const COMPONENT_LIMIT: usize = 64;

/// Names of weight files without their endings, in the order they are looked for.
const STEMS: &[&str] = &["diffusion_pytorch_model", "model", "pytorch_model"];
/// Endings of single files, in the order they are looked for; an index goes before each.
const ENDINGS: &[&str] = &["safetensors", "bin", "gguf"];

/// Opens a pipeline (`model_index.json`), or one model with its `config.json`.
pub(super) fn open(folder: &Path, options: &OpenOptions) -> Result<Parts> {
    let index = folder.join("model_index.json");
    if !index.is_file() {
        let mut parts = open_component(folder, folder, options)?.ok_or_else(|| {
            let what = "a folder without model_index.json and without weights of a known name \
                        (model.safetensors, diffusion_pytorch_model.safetensors, …)";
            WeightError::new(folder, Reason::UnknownFormat(what.to_owned()))
        })?;
        parts.configs = read_config(folder, folder, "")?.into_iter().collect();
        return Ok(parts);
    }
    inside(folder, &index, "model_index.json")?;
    let text = read_small(&index)?;
    let components = parse_model_index(&index, &text)?;
    let mut all = Parts {
        format: Format::Diffusers,
        version: None,
        tensors: Vec::new(),
        metadata: Vec::new(),
        configs: vec![(String::new(), parse_json(&index, &text)?)],
        files: Vec::new(),
    };
    for name in components {
        let place = folder.join(&name);
        if !place.is_dir() {
            let what = "the pipeline's index names this component, but its folder is missing";
            return Err(WeightError::new(&place, Reason::Malformed { at: 0, what: what.into() }));
        }
        inside(folder, &place, &name)?;
        all.configs.extend(read_config(folder, &place, &name)?);
        // Schedulers, tokenizers and the like have no weights.
        let Some(mut parts) = open_component(folder, &place, options)? else { continue };
        for tensor in &mut parts.tensors {
            tensor.name.insert_str(0, &format!("{name}."));
        }
        all.tensors.append(&mut parts.tensors);
        all.files.append(&mut parts.files);
    }
    Ok(all)
}

/// Opens the shards that an index names.
pub(super) fn open_index(index: &Path, options: &OpenOptions) -> Result<Parts> {
    let folder = index.parent().unwrap_or(Path::new("."));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    open_shards(folder, folder, index, options)
}

fn open_component(root: &Path, place: &Path, options: &OpenOptions) -> Result<Option<Parts>> {
    let variant = options.variant.as_ref().map(|v| format!(".{v}")).unwrap_or_default();
    for ending in ENDINGS {
        for stem in STEMS {
            // Both places of the variant are in use: before the ending, and before `.index`.
            for name in [
                format!("{stem}.{ending}.index{variant}.json"),
                format!("{stem}{variant}.{ending}.index.json"),
            ] {
                let index = place.join(&name);
                if index.is_file() {
                    inside(root, &index, &name)?;
                    return open_shards(root, place, &index, options).map(Some);
                }
            }
            let name = format!("{stem}{variant}.{ending}");
            let file = place.join(&name);
            if file.exists() {
                inside(root, &file, &name)?;
                return read(&Source::open(&file, options.access)?).map(Some);
            }
        }
    }
    Ok(None)
}

fn open_shards(root: &Path, folder: &Path, index: &Path, options: &OpenOptions) -> Result<Parts> {
    let map = parse_index(index, &read_small(index)?)?;
    let mut shards: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for (tensor, shard) in &map {
        shards.entry(shard).or_default().insert(tensor);
    }
    let mut all: Option<Parts> = None;
    for (shard, expected) in shards {
        let path = folder.join(shard);
        inside(root, &path, shard).map_err(|mut error| {
            error.file = index.to_owned();
            error
        })?;
        let mut parts = read(&Source::open(&path, options.access)?)?;
        let found: HashSet<&str> = parts.tensors.iter().map(|t| t.name.as_str()).collect();
        if let Some(missing) = expected.iter().find(|name| !found.contains(**name)) {
            let reason = Reason::NotInShard { shard: shard.to_owned() };
            return Err(WeightError::tensor(index, missing, reason));
        }
        if let Some(extra) = parts.tensors.iter().find(|t| !expected.contains(t.name.as_str())) {
            let what = "the index does not put this tensor in this shard".to_owned();
            return Err(extra.fail(Reason::Malformed { at: extra.offset, what }));
        }
        match &mut all {
            Some(all) => {
                all.tensors.append(&mut parts.tensors);
                all.files.append(&mut parts.files);
            }
            None => all = Some(parts),
        }
    }
    all.ok_or_else(|| {
        let what = "the index names no tensors".to_owned();
        WeightError::new(index, Reason::Malformed { at: 0, what })
    })
}

/// The tensors that an index (`….index.json`) names and the shard of each, every name a plain
/// file name. `file` is for errors.
pub fn parse_index(file: &Path, text: &[u8]) -> Result<Vec<(String, String)>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: Pairs,
    }
    let index: Index = serde_json::from_slice(text).map_err(|error| {
        let what = format!("no index of shards: {error}");
        WeightError::new(file, Reason::Malformed { at: 0, what })
    })?;
    let mut names = HashSet::new();
    let mut shards = HashSet::new();
    for (tensor, shard) in &index.weight_map.0 {
        if !names.insert(tensor) {
            let reason = Reason::Duplicate { what: "the tensor", name: tensor.clone() };
            return Err(WeightError::tensor(file, tensor, reason));
        }
        shards.insert(shard);
        if shards.len() > SHARD_LIMIT {
            let (count, limit) = (shards.len() as u64, SHARD_LIMIT as u64);
            return Err(WeightError::new(file, Reason::TooMany { what: "shards", count, limit }));
        }
        plain_name(shard).map_err(|why| {
            let reason = Reason::ShardPath { shard: shard.clone(), why: why.to_owned() };
            WeightError::tensor(file, tensor, reason)
        })?;
    }
    Ok(index.weight_map.0)
}

/// The components that a pipeline's `model_index.json` names, each a plain folder name.
/// `file` is for errors.
pub fn parse_model_index(file: &Path, text: &[u8]) -> Result<Vec<String>> {
    let malformed = |what: String| WeightError::new(file, Reason::Malformed { at: 0, what });
    let json = parse_json(file, text)?;
    let map = json.as_object().ok_or_else(|| malformed("no index of a pipeline".to_owned()))?;
    let mut components = Vec::new();
    for (name, value) in map {
        // Settings begin with `_`, or are no pair of library and class; unused parts are null.
        let used =
            value.as_array().is_some_and(|v| v.len() == 2 && v.iter().all(|v| v.is_string()));
        if name.starts_with('_') || !used {
            continue;
        }
        plain_name(name).map_err(|why| {
            let reason = Reason::ShardPath { shard: name.clone(), why: why.to_owned() };
            WeightError::new(file, reason)
        })?;
        components.push(name.clone());
    }
    if components.len() > COMPONENT_LIMIT {
        let (count, limit) = (components.len() as u64, COMPONENT_LIMIT as u64);
        return Err(WeightError::new(file, Reason::TooMany { what: "components", count, limit }));
    }
    Ok(components)
}

/// Refuses everything but one plain name, on every system: no folders, drives or streams.
fn plain_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > 255 {
        return Err("not a file name");
    }
    if name.chars().any(|c| matches!(c, '/' | '\\' | ':') || c.is_control()) {
        return Err("only plain file names beside the index are read, no paths");
    }
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(()),
        _ => Err("only plain file names beside the index are read, no paths"),
    }
}

/// Refuses a file that a symbolic link puts outside the folder. The one exception is how the
/// Hugging Face cache keeps files: `snapshots/…` links to `blobs/…` of the same model.
fn inside(root: &Path, path: &Path, name: &str) -> Result<()> {
    let refuse =
        |why: String| WeightError::new(path, Reason::ShardPath { shard: name.to_owned(), why });
    let real = |path: &Path| -> Result<PathBuf> {
        fs::canonicalize(path).map_err(|e| refuse(e.to_string()))
    };
    let (root, target) = (real(root)?, real(path)?);
    if target.starts_with(&root) {
        return Ok(());
    }
    let snapshots = root.ancestors().find(|a| a.file_name().is_some_and(|n| n == "snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|model| model.join("blobs"));
    if blobs.is_some_and(|blobs| target.parent() == Some(&blobs)) {
        return Ok(());
    }
    Err(refuse(format!("it is a link to {}, outside the folder", target.display())))
}

/// The configuration of a component, if it has one. What it says goes into converted files, so it
/// must not be a link to something else on this machine.
fn read_config(
    root: &Path,
    folder: &Path,
    name: &str,
) -> Result<Option<(String, serde_json::Value)>> {
    let path = folder.join("config.json");
    if !path.is_file() {
        return Ok(None);
    }
    inside(root, &path, "config.json")?;
    Ok(Some((name.to_owned(), parse_json(&path, &read_small(&path)?)?)))
}

fn parse_json(file: &Path, text: &[u8]) -> Result<serde_json::Value> {
    serde_json::from_slice(text).map_err(|error| {
        WeightError::new(file, Reason::Malformed { at: 0, what: format!("no JSON: {error}") })
    })
}

/// A whole small file.
fn read_small(path: &Path) -> Result<Vec<u8>> {
    let metadata = fs::metadata(path).map_err(|e| WeightError::new(path, e))?;
    if !metadata.is_file() {
        return Err(WeightError::new(path, Reason::NotAFile));
    }
    if metadata.len() > JSON_LIMIT {
        let (what, count) = ("bytes of JSON", metadata.len());
        return Err(WeightError::new(path, Reason::TooMany { what, count, limit: JSON_LIMIT }));
    }
    fs::read(path).map_err(|e| WeightError::new(path, e))
}
