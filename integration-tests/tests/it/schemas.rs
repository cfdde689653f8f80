//! `docs/schemas/` says what the types say, and the schemas take and refuse what the services take and refuse.

mod documents;
mod life;
mod published;

use std::collections::BTreeSet;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use published::{Published, published};

/// Set to write the files instead of comparing them.
const WRITE: &str = "MOSAIC_WRITE_SCHEMAS";
/// How people do that.
const REGENERATE: &str = "MOSAIC_WRITE_SCHEMAS=1 cargo test -p mosaic-integration-tests --test it schemas";

#[test]
fn the_published_schemas_are_those_of_the_types() {
    if std::env::var_os(WRITE).is_some() {
        published::write();
    }
    for Published { file, schema } in published() {
        let checked_in = published::read(file);
        assert!(checked_in == Some(schema), "docs/schemas/{file} is not what its type says; run `{REGENERATE}`");
    }
    let known: BTreeSet<_> = published().iter().map(|schema| schema.file.to_owned()).collect();
    assert_eq!(published::files(), known, "docs/schemas has a file that no type stands behind");
}

#[test]
fn every_property_says_what_it_is() {
    for Published { file, schema } in published() {
        for key in ["$id", "title", "description"] {
            assert!(schema.get(key).is_some_and(Value::is_string), "{file} has no {key}");
        }
        let mut silent = Vec::new();
        collect_silent(schema.as_value(), &mut silent);
        assert!(silent.is_empty(), "{file}: no description of {silent:?}");
    }
}

/// Names of the properties below `schema` that have neither a description nor a fixed value.
fn collect_silent(schema: &Value, silent: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if !property["description"].is_string() && property.get("const").is_none() {
            silent.push(name.clone());
        }
    }
    match schema {
        Value::Object(keys) => keys.values().for_each(|value| collect_silent(value, silent)),
        Value::Array(items) => items.iter().for_each(|value| collect_silent(value, silent)),
        _ => {}
    }
}

/// A published schema, ready to judge documents.
struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// Of the schema that is published as `file`.
    fn of(file: &str) -> Self {
        let found = published().into_iter().find(|schema| schema.file == file).expect(file);
        let address = format!("file:///{file}");
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.enable_format_assertions();
        compiler.add_resource(&address, found.schema.to_value()).expect("the address is one");
        let index = compiler.compile(&address, &mut schemas).expect("a valid schema");
        Self { schemas, index }
    }

    /// What is wrong with `document`.
    fn check(&self, document: &Value) -> Result<(), String> {
        self.schemas.validate(document, self.index).map_err(|error| error.to_string())
    }
}
