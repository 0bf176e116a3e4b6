//! `ringfence image`

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_policy::ByteSize;
use ringfence_service::{
    ImageBuild, ImageRecord, Places, build_image, list_images, remove_image, show_image, verify_image,
};
use serde_json::json;

use crate::args::{ImageArgs, ImageVerb};
use crate::failure::{Failure, REFUSED};
use crate::output::{self, printable};

pub(crate) fn image(args: ImageArgs) -> Result<i32, Failure> {
    let json = match &args.verb {
        ImageVerb::Build { json, .. }
        | ImageVerb::Ls { json }
        | ImageVerb::Show { json, .. }
        | ImageVerb::Rm { json, .. }
        | ImageVerb::Verify { json, .. } => *json,
    };
    carry_out(args.verb).map_err(|failure| failure.with_json(json))
}

fn carry_out(verb: ImageVerb) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    match verb {
        ImageVerb::Build { name, from, with, json } => build(&places, ImageBuild { name, from, with }, json),
        ImageVerb::Ls { json } => ls(&places, json),
        ImageVerb::Show { name, json } => show(&places, &name, json),
        ImageVerb::Rm { names, json } => {
            let removed =
                names.iter().map(|name| remove_image(&places, name)).collect::<Result<Vec<_>, _>>()?;
            if json {
                let names: Vec<&String> = removed.iter().map(|record| &record.name).collect();
                output::json(&json!({ "removed": names }));
            }
            Ok(0)
        }
        ImageVerb::Verify { names, json } => verify(&places, names, json),
    }
}

fn build(places: &Places, spec: ImageBuild, json: bool) -> Result<i32, Failure> {
    let bar = if stderr().is_terminal() && !json { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.set_message(format!("building {}", printable(&spec.name)));
    let built = build_image(places, spec, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let built = built?;
    for note in &built.record.notes {
        output::note(note);
    }
    if json {
        output::json(&built.record);
    } else {
        let ImageRecord { name, digest, entries, bytes, .. } = &built.record;
        output::line(format!("{name}: {digest}, {entries} files and directories, {}", size(*bytes)));
    }
    Ok(0)
}

fn ls(places: &Places, json: bool) -> Result<i32, Failure> {
    let records = list_images(places)?;
    if json {
        output::json(&records);
        return Ok(0);
    }
    let rows = records.into_iter().map(|record| {
        let digest = record.digest.chars().take(12).collect();
        let from = if record.with.is_empty() {
            record.from
        } else {
            format!("{}: {}", record.from, record.with.join(", "))
        };
        [record.name, digest, record.entries.to_string(), size(record.bytes), from]
    });
    output::table(["image", "digest", "files", "size", "from"], rows);
    Ok(0)
}

fn show(places: &Places, name: &str, json: bool) -> Result<i32, Failure> {
    let (record, tree) = show_image(places, name)?;
    if json {
        let mut value = serde_json::to_value(&record).unwrap_or_default();
        value["tree"] = json!(tree);
        output::json(&value);
        return Ok(0);
    }
    let skill = record.skill.as_ref().map(|skill| format!("{} at {}", skill.name, skill.path));
    let mut rows = vec![
        ["name".to_owned(), record.name],
        ["digest".to_owned(), record.digest],
        ["from".to_owned(), record.from],
        ["with".to_owned(), record.with.join(", ")],
        ["built".to_owned(), output::moment(i64::try_from(record.created).unwrap_or(0) * 1000)],
        ["files".to_owned(), record.entries.to_string()],
        ["size".to_owned(), size(record.bytes)],
        ["PATH".to_owned(), record.path.unwrap_or_else(|| "the usual".to_owned())],
        ["skill".to_owned(), skill.unwrap_or_else(|| "none".to_owned())],
        ["tree".to_owned(), tree.display().to_string()],
    ];
    rows.extend(record.notes.into_iter().map(|note| ["note".to_owned(), note]));
    output::table(["image", ""], rows);
    Ok(0)
}

fn verify(places: &Places, names: Vec<String>, json: bool) -> Result<i32, Failure> {
    let names = if names.is_empty() {
        list_images(places)?.into_iter().map(|record| record.name).collect()
    } else {
        names
    };
    let mut found = Vec::new();
    for name in &names {
        found.push((name, verify_image(places, name)?));
    }
    let whole = found.iter().all(|(_, damage)| damage.is_empty());
    if json {
        let images: Vec<_> =
            found.iter().map(|(name, damage)| json!({ "image": name, "damage": damage })).collect();
        output::json(&json!({ "whole": whole, "images": images }));
    } else {
        for (name, line) in
            found.iter().flat_map(|(name, damage)| damage.iter().map(move |line| (name, line)))
        {
            output::warning(&format!("image {name}: {line}"));
        }
        if whole {
            output::note("all images are whole");
        }
    }
    Ok(if whole { 0 } else { REFUSED })
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    // Rounded: nobody reads the last digits of megabytes.
    if bytes >= MIB { format!("{:.1}M", bytes as f64 / MIB as f64) } else { ByteSize(bytes).to_string() }
}
