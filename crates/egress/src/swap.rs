//! Secrets in HTTP messages: the value takes the placeholder's place on the way out, and the placeholder the value's on
//! the way back.
//!
//! Invariant: a `Swap` that fills values in exists only for a connection that is TLS to a verified host of those secrets,
//! so whoever has none can't fill anything in. Any other connection to such a host has one that only masks: what the host
//! was given on one port it may give out on another.

mod basic;
mod escapes;
mod forms;
mod replace;

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use ringfence_policy::{HostName, NetworkRules};
use secrecy::ExposeSecret;

use crate::lock::Lock;
use crate::secrets::{Secret, Secrets};

pub(crate) use forms::Writing;
use replace::Replacer;
pub(crate) use replace::Streaming;

/// Every secret of a sandbox.
pub(crate) struct Swaps {
    secrets: Vec<Secret>,
    made: Lock<BTreeMap<Together, Arc<Swap>>>,
}

/// Secrets that go together, by index: few hosts share many.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Together {
    filled: Vec<usize>,
    masked: Vec<usize>,
}

impl Swaps {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets: secrets.into_inner(), made: Lock::default() }
    }

    /// What is to be swapped towards this host, over TLS; `None` if it gets no secret.
    pub(crate) fn towards(&self, rules: &NetworkRules, host: &HostName, port: u16) -> Option<Arc<Swap>> {
        self.swap(&rules.secrets_for(host, port), &rules.secrets_of(host))
    }

    /// What is to be masked in answers of this host, on a connection that carries no secret to it.
    pub(crate) fn back_from(&self, rules: &NetworkRules, host: &HostName) -> Option<Arc<Swap>> {
        self.swap(&[], &rules.secrets_of(host))
    }

    fn swap(&self, filled: &[usize], masked: &[usize]) -> Option<Arc<Swap>> {
        let of = |wanted: &[usize]| -> Vec<usize> {
            (0..self.secrets.len()).filter(|index| wanted.contains(&self.secrets[*index].rule)).collect()
        };
        let together = Together { filled: of(filled), masked: of(masked) };
        if together.masked.is_empty() {
            return None;
        }
        let mut made = self.made.lock();
        let swap = made.entry(together).or_insert_with_key(|Together { filled, masked }| {
            let secrets =
                |list: &[usize]| -> Vec<&Secret> { list.iter().map(|index| &self.secrets[*index]).collect() };
            Arc::new(Swap::new(&secrets(filled), &secrets(masked)))
        });
        Some(swap.clone())
    }
}

/// What is swapped on one connection. Deliberately without `Debug`.
pub(crate) struct Swap {
    /// Placeholder to value.
    headers: Replacer,
    plain: Arc<Replacer>,
    json: Arc<Replacer>,
    form: Arc<Replacer>,
    /// Every form of a value to its placeholder.
    echoes: Arc<Replacer>,
    /// Every form of a value to as many asterisks, where a length must stay what it is.
    covered: Arc<Replacer>,
}

impl Swap {
    fn new(filled: &[&Secret], masked: &[&Secret]) -> Self {
        let in_bodies = |writing: Writing| {
            let looked_for = filled.iter().filter(|secret| secret.body);
            Arc::new(Replacer::new(looked_for.map(|secret| {
                (secret.placeholder.clone().into_bytes(), writing.write(secret.value.expose_secret()))
            })))
        };
        let pairs = masked.iter().flat_map(|secret| {
            let forms = forms::echoes(secret.value.expose_secret());
            forms.into_iter().map(|form| (form, secret.placeholder.clone().into_bytes()))
        });
        let pairs: Vec<_> = pairs.collect();
        let covered = pairs.iter().map(|(form, _)| (form.clone(), vec![b'*'; form.len()]));
        Self {
            headers: Replacer::new(filled.iter().map(|secret| {
                (secret.placeholder.clone().into_bytes(), secret.value.expose_secret().as_bytes().to_vec())
            })),
            plain: in_bodies(Writing::Plain),
            json: in_bodies(Writing::Json),
            form: in_bodies(Writing::Form),
            covered: Arc::new(Replacer::new(covered)),
            echoes: Arc::new(Replacer::new(pairs)),
        }
    }

    /// Put the values in, in plain sight and inside Basic authorization.
    pub(crate) fn fill_headers(&self, headers: &mut HeaderMap) {
        for (name, value) in headers.iter_mut() {
            let text = value.as_bytes();
            let is_credentials = matches!(*name, header::AUTHORIZATION | header::PROXY_AUTHORIZATION);
            let inside = || basic::rewrite(text, |credentials| self.headers.replace(credentials));
            let filled = self.headers.replace(text).or_else(|| is_credentials.then(inside).flatten());
            let Some(Ok(mut filled)) = filled.map(HeaderValue::try_from) else { continue };
            // Never in a compression table, never printed.
            filled.set_sensitive(true);
            *value = filled;
        }
    }

    /// For a request's body of this type; `None` if no secret is looked for in bodies.
    pub(crate) fn fill_body(&self, writing: Writing) -> Option<Streaming> {
        let replacer = match writing {
            Writing::Plain => &self.plain,
            Writing::Json => &self.json,
            Writing::Form => &self.form,
        };
        (!replacer.is_empty()).then(|| Streaming::new(replacer.clone()))
    }

    /// Take the values out of an answer's headers, or of trailers. A name can't be changed: such a header goes.
    pub(crate) fn mask_headers(&self, headers: &mut HeaderMap) {
        let tainted: Vec<HeaderName> = headers
            .keys()
            .filter(|name| self.echoes.is_in_any_case(name.as_str().as_bytes()))
            .cloned()
            .collect();
        for name in tainted {
            headers.remove(name);
        }
        for value in headers.values_mut() {
            if let Some(masked) = self.echoes.replace(value.as_bytes()) {
                *value = HeaderValue::try_from(masked).unwrap_or(HeaderValue::from_static(""));
            }
        }
    }

    pub(crate) fn mask_body(&self) -> Streaming {
        Streaming::new(self.echoes.clone())
    }

    /// For what comes after an upgrade, whose frames have lengths.
    pub(crate) fn cover(&self) -> Streaming {
        Streaming::new(self.covered.clone())
    }
}

#[cfg(test)]
#[path = "swap_tests.rs"]
mod tests;
