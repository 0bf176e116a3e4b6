//! Where the packages of a layer come from and what installs them: exactly what the user's own client is configured with,
//! decided outside and part of what the layer is known by.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::LayerKind;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::registry::{Client, Settings, configured, to_npmrc};
use crate::skills::programs::Programs;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sources {
    /// `None`: the interpreter's own pip.
    pub(super) installer: Option<PathBuf>,
    pub(super) settings: Settings,
}

impl Sources {
    pub(crate) fn of(places: &Places, programs: &Programs, kind: LayerKind) -> Result<Self, ServiceError> {
        let (client, tool) = match kind {
            LayerKind::Python => (Client::Pip, programs.find("uv")),
            LayerKind::Node => (Client::Npm, Some(programs.find("npm").ok_or_else(no_npm)?)),
        };
        Ok(Self { installer: tool, settings: configured(places, client)? })
    }

    /// As npm reads it. A file, because a shell drops variables with names like `npm_config_@scope:registry`.
    pub(super) fn npmrc(&self) -> String {
        to_npmrc(&self.settings)
    }

    /// As pip reads them, and with no file of its own beside them.
    pub(super) fn pip_variables(&self) -> Vec<(String, String)> {
        let named = |(name, value): (&String, &String)| {
            (format!("PIP_{}", name.replace('-', "_").to_uppercase()), value.clone())
        };
        let mut variables: Vec<_> = self.settings.iter().map(named).collect();
        variables.push(("PIP_CONFIG_FILE".to_owned(), "/dev/null".to_owned()));
        variables
    }

    /// `name=value`, for the record of the layer.
    pub(super) fn lines(&self) -> Vec<String> {
        self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Which program it is: another version is another file.
    pub(super) fn installer_identity(&self) -> String {
        let Some(path) = &self.installer else { return "pip".to_owned() };
        let facts = path.metadata().map(|facts| (facts.size(), facts.mtime())).ok();
        format!("{} {facts:?}", path.display())
    }
}

fn no_npm() -> ServiceError {
    ServiceError::new(
        ErrorCode::Missing,
        "there is no npm on this machine, which installs the packages of a Node skill",
        "install npm, or run with --no-deps",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(settings: &[(&str, &str)]) -> Sources {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Sources { installer: None, settings: settings.collect() }
    }

    #[test]
    fn a_value_is_one_value_to_npm_whatever_is_in_it() {
        let text = sources(&[("@a:registry", "https://a.example/;x=#y"), ("registry", "https://r.example/")])
            .npmrc();
        assert_eq!(text, "@a:registry=\"https://a.example/;x=#y\"\nregistry=\"https://r.example/\"\n");
    }

    #[test]
    fn pip_has_its_settings_and_no_file() {
        let variables = sources(&[("extra-index-url", "https://a.example/simple")]).pip_variables();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            variables,
            [pair("PIP_EXTRA_INDEX_URL", "https://a.example/simple"), pair("PIP_CONFIG_FILE", "/dev/null")]
        );
    }
}
