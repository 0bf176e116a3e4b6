//! An image in several layers: an OCI layout, or what `docker save` writes. Every blob is checked against its digest before
//! anything of it counts.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ring::digest::{Context, SHA256};
use ringfence_sandbox::snapshots::TreePath;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::archive::{LeftOut, Room, read_layer};
use crate::draft::{Draft, Part, open_file};
use crate::error::{During, ImageError, Result};
use crate::layer::Layer;
use crate::spool::Spool;

/// Of a JSON document of an image.
const MOST_JSON: u64 = 4 << 20;
const MOST_LAYERS: usize = 512;
/// An index may name another one; real ones do so once.
const MOST_INDEXES: usize = 4;

/// The files of a layout, all in the spool: what was checked is what is read.
pub(crate) struct Layout(pub(crate) Draft);

/// An image, and what its configuration says of PATH.
pub(crate) struct LayoutImage {
    pub(crate) draft: Draft,
    pub(crate) path: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Descriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct ImageManifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    config: Option<Settings>,
    #[serde(default)]
    rootfs: Option<RootFs>,
}

#[derive(Debug, Default, Deserialize)]
struct Settings {
    #[serde(rename = "Env", default)]
    env: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// One image of what `docker save` writes.
#[derive(Debug, Deserialize)]
struct Saved {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

/// Is this an image in layers, and not a root filesystem?
pub(crate) fn is_layout(layer: &Layer) -> bool {
    let has = |name: &[u8]| {
        TreePath::new(name).is_some_and(|path| matches!(layer.own().get(&path), Some(Part::File(_))))
    };
    has(b"oci-layout") || has(b"manifest.json")
}

impl Layout {
    pub(crate) fn read(&self, spool: &Spool, room: &mut Room, left_out: &mut LeftOut) -> Result<LayoutImage> {
        let (config, layers) = if self.has("index.json") { self.oci()? } else { self.saved()? };
        let mut draft = Draft::default();
        if layers.is_empty() || layers.len() > MOST_LAYERS {
            return Err(bad(format!("it has {} layers", layers.len())));
        }
        for layer in layers {
            read_layer(&layer, spool, room, left_out)?.apply(&mut draft)?;
        }
        let settings = config.config.and_then(|settings| settings.env).unwrap_or_default();
        let path = settings.iter().find_map(|line| line.strip_prefix("PATH=")).map(str::to_owned);
        let plain = |path: &String| {
            path.len() <= 4096
                && path.split(':').all(|one| one.starts_with('/'))
                && !path.chars().any(char::is_control)
        };
        Ok(LayoutImage { draft, path: path.filter(plain) })
    }

    /// By its index: the one manifest for this machine.
    fn oci(&self) -> Result<(Config, Vec<File>)> {
        let mut index: Index = parse("index.json", &self.small("index.json")?)?;
        for _ in 0..MOST_INDEXES {
            let found = choose(index.manifests)?;
            let bytes = self.blob_text(&found.digest)?;
            if found.media_type.contains("index") || found.media_type.contains("manifest.list") {
                index = parse(&found.digest, &bytes)?;
                continue;
            }
            let manifest: ImageManifest = parse(&found.digest, &bytes)?;
            let config: Config = parse(&manifest.config.digest, &self.blob_text(&manifest.config.digest)?)?;
            let layers = manifest.layers.iter().map(|layer| self.blob(&layer.digest));
            return Ok((config, layers.collect::<Result<_>>()?));
        }
        Err(bad("its indexes name each other"))
    }

    /// By the list that `docker save` writes. A layer is known by the digest of its content, which the configuration has; the
    /// configuration by its own, which is its name.
    fn saved(&self) -> Result<(Config, Vec<File>)> {
        let saved: Vec<Saved> = parse("manifest.json", &self.small("manifest.json")?)?;
        let [saved] = <[Saved; 1]>::try_from(saved)
            .map_err(|saved| bad(format!("it holds {} images: save one by itself", saved.len())))?;
        let text = self.small(&saved.config)?;
        let named = saved.config.rsplit('/').next().unwrap_or_default();
        let named = named.strip_suffix(".json").unwrap_or(named);
        if named != hex(ring::digest::digest(&SHA256, &text).as_ref()) {
            return Err(mismatch(&saved.config));
        }
        let config: Config = parse(&saved.config, &text)?;
        let expected = config.rootfs.as_ref().map(|rootfs| rootfs.diff_ids.clone()).unwrap_or_default();
        if expected.len() != saved.layers.len() {
            return Err(bad("its configuration has another number of layers"));
        }
        let layers = saved.layers.iter().zip(&expected).map(|(name, expected)| {
            let file = self.open(name)?;
            check(name, &file, expected)?;
            Ok(file)
        });
        Ok((config, layers.collect::<Result<_>>()?))
    }

    fn has(&self, name: &str) -> bool {
        self.open(name).is_ok()
    }

    /// `sha256:…`, checked.
    fn blob(&self, digest: &str) -> Result<File> {
        let hash = digest.strip_prefix("sha256:").unwrap_or_default();
        if hash.len() != 64 || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad("a digest in it is not one of sha256"));
        }
        let name = format!("blobs/sha256/{hash}");
        let file = self.open(&name)?;
        check(&name, &file, digest)?;
        Ok(file)
    }

    fn blob_text(&self, digest: &str) -> Result<Vec<u8>> {
        read_small(digest, self.blob(digest)?)
    }

    fn small(&self, name: &str) -> Result<Vec<u8>> {
        read_small(name, self.open(name)?)
    }

    /// A file of the layout, and no link.
    fn open(&self, name: &str) -> Result<File> {
        let path = TreePath::new(name.as_bytes()).ok_or_else(|| bad("it names a file outside"))?;
        match self.0.get(&path) {
            Some(Part::File(content)) => open_file(content).at("open", content),
            _ => Err(bad(format!("{path} is not in it"))),
        }
    }
}

/// The one for this machine, or the only one.
fn choose(manifests: Vec<Descriptor>) -> Result<Descriptor> {
    let wanted = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let count = manifests.len();
    let mut fitting: Vec<Descriptor> = manifests
        .into_iter()
        .filter(|one| match &one.platform {
            None => true,
            Some(platform) => platform.architecture == wanted && matches!(&*platform.os, "" | "linux"),
        })
        .collect();
    match fitting.pop() {
        Some(one) if fitting.is_empty() => Ok(one),
        Some(_) => Err(bad(format!("{count} images are in it, and more than one is for this machine"))),
        None => Err(bad(format!("none of its {count} images is for linux/{wanted}"))),
    }
}

fn read_small(name: &str, file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_JSON + 1).read_to_end(&mut bytes).at("read", Path::new(name))?;
    if bytes.len() as u64 > MOST_JSON {
        return Err(bad(format!("{name} is too large")));
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| bad(format!("{name} can't be read: {error}")))
}

fn check(name: &str, file: &File, expected: &str) -> Result<()> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 128 * 1024];
    let mut at = 0;
    // By position: whoever reads it next begins at its beginning.
    loop {
        match file.read_at(&mut buffer, at).at("read", Path::new(name))? {
            0 => break,
            count => {
                context.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
    let found = hex(context.finish().as_ref());
    if expected.strip_prefix("sha256:") == Some(&*found) { Ok(()) } else { Err(mismatch(name)) }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mismatch(name: &str) -> ImageError {
    ImageError::refused("image-bad-digest", format!("the content of {name} is not what its digest says"))
}

fn bad(why: impl std::fmt::Display) -> ImageError {
    ImageError::refused("image-bad-layout", format!("not an image that can be read: {why}"))
}
