#![no_main]

libfuzzer_sys::fuzz_target!(|content: &[u8]| mosaic_checkout::fuzz::index(content));
