//! Tool policy: a task can narrow what its mission allows, never widen it.

use mosaic_record::{Note, Tool};

/// The tools that are in force, and what is noted about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The tools, in the task's order where the task names any.
    pub tools: Vec<Tool>,
    /// Set when mission and task have no tool in common.
    pub note: Option<Note>,
}

/// The mission's tools if only the mission names any; the task's if only the task does; the intersection if both do; none if
/// neither.
#[must_use]
pub fn effective_tools(mission: Option<&[Tool]>, task: Option<&[Tool]>) -> Effective {
    let tools = match (mission, task) {
        (None, None) => Vec::new(),
        (Some(tools), None) | (None, Some(tools)) => tools.to_vec(),
        (Some(ceiling), Some(wanted)) => wanted.iter().copied().filter(|tool| ceiling.contains(tool)).collect(),
    };
    let emptied = tools.is_empty() && mission.is_some_and(|m| !m.is_empty()) && task.is_some_and(|t| !t.is_empty());
    Effective { tools, note: emptied.then_some(Note::ToolFreeByPolicy) }
}

#[cfg(test)]
mod tests {
    use Tool::{Bash, Edit, Grep, Ls, Read, Write};

    use super::*;

    #[test]
    fn a_task_narrows_and_never_widens() {
        type Case = (Option<&'static [Tool]>, Option<&'static [Tool]>, &'static [Tool], Option<Note>);
        let cases: &[Case] = &[
            (None, None, &[], None),
            (Some(&[Read, Ls]), None, &[Read, Ls], None),
            (None, Some(&[Bash]), &[Bash], None),
            (Some(&[Read, Write, Edit]), Some(&[Edit, Bash, Read]), &[Edit, Read], None),
            (Some(&[Read]), Some(&[Bash]), &[], Some(Note::ToolFreeByPolicy)),
            (Some(&[]), Some(&[Grep]), &[], None),
            (Some(&[Read]), Some(&[]), &[], None),
        ];
        for (mission, task, tools, note) in cases {
            let expected = Effective { tools: tools.to_vec(), note: *note };
            assert_eq!(effective_tools(*mission, *task), expected, "{mission:?} {task:?}");
        }
    }
}
