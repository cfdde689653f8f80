/// A value that a closed list doesn't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {list} \"{}\"; known: {known}", value.chars().take(80).collect::<String>().escape_debug())]
pub struct UnknownValue {
    /// What the list is a list of, for example `tool`.
    pub list: &'static str,
    /// The value.
    pub value: String,
    /// Every known value, separated by spaces.
    pub known: String,
}

/// Defines an enum whose values have one spelling, kebab-case, from which the UPPER_SNAKE spelling on the wire follows.
macro_rules! closed_list {
    (
        $(#[$meta:meta])*
        $list:literal $name:ident { $( $(#[$doc:meta])* $variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
        pub enum $name {
            $( $(#[$doc])* #[schemars(rename = $text)] $variant, )+
        }

        impl $name {
            /// Every value, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The spelling for people and JSON, kebab-case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The spelling on the wire, UPPER_SNAKE.
            #[must_use]
            pub fn to_wire(self) -> String {
                self.as_str().replace('-', "_").to_ascii_uppercase()
            }

            /// The value with this spelling on the wire.
            #[must_use]
            pub fn from_wire(wire: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.to_wire() == wire)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownValue;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownValue> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| $crate::UnknownValue {
                    list: $list,
                    value: text.to_owned(),
                    known: Self::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(" "),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use closed_list;
