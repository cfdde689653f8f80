//! What every gRPC server and client of Mosaic does in the same way
