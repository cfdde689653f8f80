use std::collections::BTreeMap;
use std::fmt;

use mosaic_record::{LIMITS, Limits, OverCap, Tool};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A text that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Err(D::Error::custom("must not be empty")) } else { Ok(Self(text)) }
    }
}

impl schemars::JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "minLength": 1})
    }
}

/// A list of tools without duplicates, in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Tools(Vec<Tool>);

impl Tools {
    /// The tools.
    #[must_use]
    pub fn as_slice(&self) -> &[Tool] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ToolsVisitor)
    }
}

struct ToolsVisitor;

impl<'de> Visitor<'de> for ToolsVisitor {
    type Value = Tools;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tools")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tools, A::Error> {
        let mut tools = Vec::new();
        while let Some(tool) = list.next_element_seed(NewTool(&tools))? {
            tools.push(tool);
        }
        Ok(Tools(tools))
    }
}

/// Takes a tool that is not in the list yet; as a seed, so that the error is at the second one's index.
struct NewTool<'a>(&'a [Tool]);

impl<'de> serde::de::DeserializeSeed<'de> for NewTool<'_> {
    type Value = Tool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tool, D::Error> {
        let tool = Tool::deserialize(deserializer)?;
        if self.0.contains(&tool) {
            return Err(D::Error::custom(format!("duplicate tool \"{tool}\"; name each once")));
        }
        Ok(tool)
    }
}

impl schemars::JsonSchema for Tools {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tools".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let tool = generator.subschema_for::<Tool>();
        schemars::json_schema!({"type": "array", "items": tool, "uniqueItems": true})
    }
}

/// Some limits, by key, to be set over others.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct LimitsPatch(BTreeMap<&'static str, u64>);

impl LimitsPatch {
    /// Sets what the patch names in `limits`.
    ///
    /// # Errors
    /// At the first value outside of what the limits table allows.
    pub fn apply(&self, limits: &mut Limits) -> Result<(), OverCap> {
        self.0.iter().try_for_each(|(key, value)| limits.set(key, *value))
    }

    /// True when the patch names `key`.
    #[must_use]
    pub fn names(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

impl<'de> Deserialize<'de> for LimitsPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LimitsVisitor)
    }
}

struct LimitsVisitor;

impl<'de> Visitor<'de> for LimitsVisitor {
    type Value = LimitsPatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitsPatch, A::Error> {
        let mut limits = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let (key, value) = map.next_value_seed(LimitValue { key, seen: &limits })?;
            limits.insert(key, value);
        }
        Ok(LimitsPatch(limits))
    }
}

/// Takes the value of a known limit that was not named yet; as a seed, so that the error is at the key.
struct LimitValue<'a> {
    key: String,
    seen: &'a BTreeMap<&'static str, u64>,
}

impl<'de> serde::de::DeserializeSeed<'de> for LimitValue<'_> {
    type Value = (&'static str, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Some(limit) = LIMITS.iter().find(|limit| limit.key == self.key) else {
            let known = LIMITS.iter().map(|limit| limit.key).collect::<Vec<_>>().join(" ");
            let key = self.key.chars().take(80).collect::<String>();
            return Err(D::Error::custom(format!("unknown limit \"{}\"; known: {known}", key.escape_debug())));
        };
        if self.seen.contains_key(limit.key) {
            return Err(D::Error::custom(format!("duplicate limit \"{}\"; name each once", self.key)));
        }
        Ok((limit.key, u64::deserialize(deserializer)?))
    }
}

impl schemars::JsonSchema for LimitsPatch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Limits".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let resolved = <Limits as schemars::JsonSchema>::json_schema(generator);
        let properties: serde_json::Map<_, _> = LIMITS
            .iter()
            .map(|limit| {
                let schema = serde_json::json!({
                    "description": resolved.pointer(&format!("/properties/{}/description", limit.key)),
                    "type": "integer", "minimum": limit.floor, "maximum": limit.cap, "default": limit.default
                });
                (limit.key.to_owned(), schema)
            })
            .collect();
        schemars::json_schema!({"type": "object", "additionalProperties": false, "properties": properties})
    }
}
