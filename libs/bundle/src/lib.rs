//! The sealed bundle a run is started with: layout, seal and verification
