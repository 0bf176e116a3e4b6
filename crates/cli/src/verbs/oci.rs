//! `ringfence oci spec` and `bundle`

use std::ffi::OsString;

use ringfence_sandbox::{Attached, OciBundle, Stream};
use ringfence_service::{Places, PolicySpec, RunSpec, oci_bundle, oci_spec};

use crate::args::{OciArgs, OciJob, OciVerb};
use crate::failure::Failure;
use crate::{output, resolve};

pub(crate) fn oci(args: OciArgs) -> Result<i32, Failure> {
    match args.verb {
        OciVerb::Spec(args) => {
            let json = args.job.json;
            let made =
                spec(args.job, args.command).and_then(|spec| Ok(oci_spec(&Places::from_env()?, spec)?));
            let bundle = made.map_err(|failure| failure.with_json(json))?;
            if json {
                output::json(&bundle);
                return Ok(0);
            }
            tell(&bundle);
            output::line(format!("{:#}", bundle.config));
        }
        OciVerb::Bundle(args) => {
            let json = args.job.json;
            let made = spec(args.job, args.command)
                .and_then(|spec| Ok(oci_bundle(&Places::from_env()?, spec, &args.directory)?));
            let bundle = made.map_err(|failure| failure.with_json(json))?;
            if json {
                output::json(&bundle);
                return Ok(0);
            }
            tell(&bundle);
        }
    }
    Ok(0)
}

fn tell(bundle: &OciBundle) {
    for note in &bundle.notes {
        output::note(note);
    }
}

fn spec(job: OciJob, argv: Vec<OsString>) -> Result<RunSpec, Failure> {
    Ok(RunSpec {
        policy: PolicySpec { learn: false, ..resolve::policy(job.policy)? },
        argv,
        directory: job.cwd,
        attached: Attached::default(),
        workspace_layers: None,
        stream: Stream::Inherit,
        trace: false,
        strict: job.strict,
    })
}
