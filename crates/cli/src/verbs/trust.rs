//! `ringfence trust`

use ringfence_service::{Places, revoke, trust as trust_file, trusted_files};

use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(crate) fn trust(args: TrustArgs) -> Result<i32, Failure> {
    let json = args.json;
    carry_out(args).map_err(|failure| failure.with_json(json))
}

fn carry_out(args: TrustArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    if args.list {
        let files = trusted_files(&places)?;
        if args.json {
            output::json(&files);
        } else if files.is_empty() {
            output::line("nothing is trusted");
        } else {
            let state = |current| if current { "trusted" } else { "changed since: not trusted" };
            let rows = files.iter().map(|file| [file.path.display().to_string(), state(file.current).into()]);
            output::table(["file", "state"], rows);
        }
    } else if args.revoke {
        let path = revoke(&places, args.file.as_deref())?;
        if args.json {
            output::json(&serde_json::json!({ "path": path, "trusted": false }));
        } else {
            output::line(format!("{} is not trusted any more", printable(&path.to_string_lossy())));
        }
    } else {
        let file = trust_file(&places, args.file.as_deref())?;
        if args.json {
            output::json(&file);
        } else {
            output::line(format!("{} is trusted as it is now", printable(&file.path.to_string_lossy())));
        }
    }
    Ok(0)
}
