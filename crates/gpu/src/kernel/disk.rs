//! Compiled code kept between runs: one file an entry, named by the hash of everything that shaped
//! it, with a checksum inside. Wrong, torn or foreign files read as absent; writes appear whole or
//! not at all. It must not know what it keeps.

use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"TTKC0001";
const CHECKSUM: usize = 32;
/// No pipeline is larger; a file that claims more is not ours.
const LARGEST_ENTRY: u64 = 256 << 20;

/// A folder of cache entries.
#[derive(Debug, Clone)]
pub struct DiskCache {
    folder: PathBuf,
}

impl DiskCache {
    /// A cache in `folder`, which is made when the first entry is written.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        DiskCache { folder: folder.into() }
    }

    /// The folder this system keeps caches in (`TINTYPE_CACHE`, else the platform's), if it has one.
    pub fn default_folder() -> Option<PathBuf> {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(folder) = var("TINTYPE_CACHE") {
            return Some(folder);
        }
        let base = if cfg!(windows) {
            var("LOCALAPPDATA")
        } else if cfg!(target_vendor = "apple") {
            var("HOME").map(|home| home.join("Library/Caches"))
        } else {
            var("XDG_CACHE_HOME").or_else(|| var("HOME").map(|home| home.join(".cache")))
        };
        base.map(|folder| folder.join("tintype").join("kernels"))
    }

    /// Where entries lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The entry under `key`, if a whole and unharmed one is there.
    pub fn get(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let path = self.path(key);
        if std::fs::metadata(&path).ok()?.len() > LARGEST_ENTRY {
            return None;
        }
        let file = std::fs::read(path).ok()?;
        let body = file.strip_prefix(MAGIC)?;
        let (checksum, payload) = body.split_at_checked(CHECKSUM)?;
        (Sha256::digest(payload).as_slice() == checksum).then(|| payload.to_vec())
    }

    /// Keeps `payload` under `key`.
    pub fn put(&self, key: &[u8; 32], payload: &[u8]) -> Result<()> {
        let failed = |error: std::io::Error| Error::Cache {
            path: self.folder.display().to_string(),
            reason: error.to_string(),
        };
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(failed)?;
        file.write_all(MAGIC).map_err(failed)?;
        file.write_all(&Sha256::digest(payload)).map_err(failed)?;
        file.write_all(payload).map_err(failed)?;
        file.persist(self.path(key)).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_and_damage_reads_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(folder.path());
        let key = [7; 32];
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"code").unwrap();
        assert_eq!(cache.get(&key).as_deref(), Some(&b"code"[..]));
        let path = cache.path(&key);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.get(&key), None, "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut harmed = whole.clone();
            harmed[at] ^= 0x40;
            std::fs::write(&path, &harmed).unwrap();
            assert_eq!(cache.get(&key), None, "flipped at {at}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = DiskCache::new(file.path().join("below-a-file"));
        assert!(matches!(cache.put(&[0; 32], b"x"), Err(Error::Cache { .. })));
    }
}
