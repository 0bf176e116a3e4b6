//! `ringfence skill layers ls` and `rm`

use ringfence_policy::ByteSize;
use ringfence_service::Places;
use ringfence_service::skills::{layers as kept, remove_layers};

use crate::args::SkillLayersVerb;
use crate::failure::Failure;
use crate::output;

/// Enough of an id for people.
const SHORT: usize = 12;

pub(crate) fn layers(verb: SkillLayersVerb) -> Result<i32, Failure> {
    match verb {
        SkillLayersVerb::Ls { json } => list(json).map_err(|failure| failure.with_json(json)),
        SkillLayersVerb::Rm { id, .. } => {
            for key in remove_layers(&Places::from_env()?, id.as_deref())? {
                output::line(format!("removed {}", &key[..SHORT]));
            }
            Ok(0)
        }
    }
}

fn list(json: bool) -> Result<i32, Failure> {
    let kept = kept(&Places::from_env()?);
    if json {
        output::json(&kept);
    } else if kept.is_empty() {
        output::line("nothing is kept");
    } else {
        let rows = kept.into_iter().map(|layer| {
            [
                layer.key[..SHORT.min(layer.key.len())].to_owned(),
                format!("{} {}", layer.kind.as_str(), layer.interpreter.version),
                ByteSize(layer.bytes).to_string(),
                layer.requirements.join(", "),
                layer.built,
            ]
        });
        output::table(["layer", "for", "size", "packages", "built"], rows);
    }
    Ok(0)
}
