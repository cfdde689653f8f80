//! What is published: a file, the type behind it, and how the type's schema becomes the file's text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mosaic_adapters::Metadata;
use mosaic_config::{BusinessFile, ConfigFile};
use mosaic_launcher::intake::{MissionFile, TaskFile};
use mosaic_record::{AnyEvent, Handoff, RunRecord, RunSpec};
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema, schema_for};

/// One published schema.
pub(super) struct Published {
    /// Its file below `docs/schemas/`, which is its relative `$id` too.
    pub(super) file: &'static str,
    /// The schema.
    pub(super) schema: Schema,
}

/// Every published schema.
pub(super) fn published() -> [Published; 9] {
    [
        of::<ConfigFile>("config.json", "Mosaic configuration"),
        of::<BusinessFile>("business.json", "Mosaic business file"),
        of::<TaskFile>("task.json", "Mosaic task file"),
        of::<MissionFile>("mission.json", "Mosaic mission"),
        of::<Metadata>("adapter.json", "Mosaic adapter metadata"),
        of::<RunRecord>("record.json", "Mosaic run record"),
        of::<AnyEvent>("event.json", "Mosaic event"),
        of::<Handoff>("handoff.json", "Mosaic handoff"),
        of::<RunSpec>("run-spec.json", "Mosaic run specification"),
    ]
}

/// Writes every file anew.
pub(super) fn write() {
    std::fs::create_dir_all(directory()).expect("the directory can be made");
    for Published { file, schema } in published() {
        let text = serde_json::to_string_pretty(&schema).expect("a schema serializes");
        std::fs::write(directory().join(file), text + "\n").expect(file);
    }
}

/// The schema that is checked in as `file`; nothing when there is none.
pub(super) fn read(file: &str) -> Option<Schema> {
    serde_json::from_str(&std::fs::read_to_string(directory().join(file)).ok()?).ok()
}

/// Names of the files that are checked in.
pub(super) fn files() -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory()).expect("the directory is there");
    entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("a plain name"))
        .filter(|name| name.ends_with(".json"))
        .collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

fn of<T: JsonSchema>(file: &'static str, title: &str) -> Published {
    let mut schema = schema_for!(T);
    schema.insert("$id".to_owned(), file.into());
    schema.insert("title".to_owned(), title.into());
    RecursiveTransform(describe_plainly).transform(&mut schema);
    Published { file, schema }
}

/// Doc comments are wrapped and link into Rust; descriptions are read where neither makes sense.
fn describe_plainly(schema: &mut Schema) {
    let Some(description) = schema.get("description").and_then(|text| text.as_str()) else { return };
    let paragraphs: Vec<_> = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    let plain = without_links(&paragraphs.join("\n\n"));
    schema.insert("description".to_owned(), plain.into());
}

/// `text` with every link to an item, with or without its target, replaced by the item's name.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, after)) = after.split_once("`]") else { break };
        plain.push_str(&format!("{before}`{name}`"));
        rest = after.strip_prefix('(').and_then(|target| target.split_once(')')).map_or(after, |(_, after)| after);
    }
    plain + rest
}

#[test]
fn links_to_items_become_their_names() {
    for (text, plain) in [
        ("up to [`MAX`](crate::MAX), see [`Name`] (a link)", "up to `MAX`, see `Name` (a link)"),
        ("`a` [b] [`c", "`a` [b] [`c"),
    ] {
        assert_eq!(without_links(text), plain);
    }
}
