//! Where this process stands in the hierarchies of control groups.

use std::path::{Path, PathBuf};

/// The directory of this process's own group in the hierarchy of a version 1 `controller`.
pub(super) fn v1(mountinfo: &str, cgroup: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let own = cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        has(controllers).then_some(path)
    })?;
    mounts(mountinfo).find(|mount| mount.kind == "cgroup" && has(mount.options))?.directory_of(own)
}

/// The directory of this process's own group in the unified hierarchy.
pub(super) fn v2(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts(mountinfo).find(|mount| mount.kind == "cgroup2")?.directory_of(own)
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// Where `group` is below the mount point; a mount may show only a part of the hierarchy, as in a container.
    fn directory_of(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(self.root).ok();
        // A group outside of what the mount shows, as after a change of namespace, is seen as the mount itself.
        let below = below.unwrap_or_else(|| Path::new(""));
        (!group.contains("..")).then(|| Path::new(self.point).join(below))
    }
}

/// proc(5): `36 35 98:0 /root /mount/point options optional* - type source super-options`.
fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut what = what.split(' ');
        let (root, point) = (place.next()?, place.next()?);
        Some(Mount { root, point, kind: what.next()?, options: what.nth(1)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";

    #[test]
    fn a_version_1_controller_is_found_in_its_own_hierarchy() {
        let own = "4:memory:/docker/abc/x\n3:cpu,cpuacct:/user.slice\n0::/";
        assert_eq!(v1(V1, own, "memory"), Some("/sys/fs/cgroup/memory/x".into()));
        assert_eq!(v1(V1, own, "cpu"), Some("/sys/fs/cgroup/cpu,cpuacct/user.slice".into()));
        assert_eq!(v1(V1, own, "pids"), None);
        assert_eq!(v1(V1, "4:memory:/elsewhere", "memory"), Some("/sys/fs/cgroup/memory/".into()));
        assert_eq!(v1(V1, "4:memory:/../../x", "memory"), None);
    }

    #[test]
    fn the_unified_hierarchy_is_found_by_its_type() {
        let mounts = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(v2(mounts, "0::/user.slice/u.scope"), Some("/sys/fs/cgroup/user.slice/u.scope".into()));
        assert_eq!(v2(V1, "0::/"), None);
    }
}
