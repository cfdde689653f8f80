//! Contracts of the Mosaic services, generated from the `.proto` files beside this crate.
//!
//! Generated types stop at each service's `rpc/convert.rs`; nothing behind it knows them. `DESCRIPTORS` of a package is
//! its encoded `FileDescriptorSet`, which server reflection and the tests that walk every rpc read.

/// The broker's contracts.
pub mod broker {
    /// Version 1.
    #[allow(
        missing_docs,
        clippy::all,
        unreachable_pub,
        unused_qualifications,
        reason = "generated; documented in the .proto files"
    )]
    pub mod v1 {
        tonic::include_proto!("mosaic.broker.v1");
    }
    /// Encoded `google.protobuf.FileDescriptorSet` of the package.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/broker.bin"));
}

/// The launcher's contracts.
pub mod launcher {
    /// Version 1.
    #[allow(
        missing_docs,
        clippy::all,
        unreachable_pub,
        unused_qualifications,
        reason = "generated; documented in the .proto files"
    )]
    pub mod v1 {
        tonic::include_proto!("mosaic.launcher.v1");
    }
    /// Encoded `google.protobuf.FileDescriptorSet` of the package.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher.bin"));
}

/// The runner's contracts.
pub mod runner {
    /// Version 1.
    #[allow(
        missing_docs,
        clippy::all,
        unreachable_pub,
        unused_qualifications,
        reason = "generated; documented in the .proto files"
    )]
    pub mod v1 {
        tonic::include_proto!("mosaic.runner.v1");
    }
    /// Encoded `google.protobuf.FileDescriptorSet` of the package.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runner.bin"));
}
