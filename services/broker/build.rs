//! Has the crate rebuilt when a migration is added; the embedded ones alone are tracked by the macro.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
