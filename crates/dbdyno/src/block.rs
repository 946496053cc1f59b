//! The engine of one block: a fresh copy of a loaded template, and for a server its process, started when the first
//! trial needs it and started again, on another fresh copy, if it died.

use crate::engines::{Engines, StartOrder, Started};
use crate::failure::Failure;
use crate::job::server::ServerOrder;
use crate::workspace::Workspace;
use dbdyno_plan::{PlannedEngine, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An engine library that trials open, or a server that they connect to.
pub struct Block<'a> {
    engines: &'a Engines,
    workspace: &'a Workspace,
    engine: &'a PlannedEngine,
    settings: &'a BTreeMap<String, Value>,
    template_data: PathBuf,
    with_port: bool,
    state: State,
}

enum State {
    /// Nothing is copied yet.
    Idle,
    /// A library's data directory is in place.
    Copied(PathBuf),
    /// A server answers.
    Answers(Box<Started>),
}

/// What a trial needs to know of its engine.
pub struct Ready {
    /// A library's data directory, or the one of a server of ours.
    pub data: PathBuf,
    /// How to reach a server.
    pub server: Option<ServerOrder>,
    /// Whether it was started, or copied, for this trial: numbers of restarts grow with it.
    pub is_fresh: bool,
}

/// What a block is made from.
pub struct Parts<'a> {
    /// The engines of the run.
    pub engines: &'a Engines,
    /// Where copies lie.
    pub workspace: &'a Workspace,
    /// The engine.
    pub engine: &'a PlannedEngine,
    /// Its settings, the same for all cells of a block.
    pub settings: &'a BTreeMap<String, Value>,
    /// Data directory of the loaded template.
    pub template_data: PathBuf,
    /// Whether clients come by a loopback port.
    pub with_port: bool,
}

impl<'a> Block<'a> {
    /// A block of which nothing is copied or started yet.
    pub fn new(parts: Parts<'a>) -> Self {
        let Parts { engines, workspace, engine, settings, template_data, with_port } = parts;
        Block { engines, workspace, engine, settings, template_data, with_port, state: State::Idle }
    }

    /// Makes the engine ready for a trial.
    ///
    /// # Errors
    /// If the template cannot be copied, or the server does not start.
    pub fn ready(&mut self) -> Result<Ready, Failure> {
        let is_fresh = match &mut self.state {
            // A library is opened anew by each trial, which is its restart.
            State::Copied(_) => true,
            State::Answers(started) => match started.ended() {
                None => false,
                Some(_) => {
                    self.state = State::Idle;
                    true
                }
            },
            State::Idle => true,
        };
        if matches!(self.state, State::Idle) {
            self.state = self.begin()?;
        }
        Ok(match &self.state {
            State::Answers(started) => Ready {
                data: self.workspace.server_directory().join("data"),
                server: Some(started.order.clone()),
                is_fresh,
            },
            State::Copied(data) => Ready { data: data.clone(), server: None, is_fresh },
            State::Idle => return Err(Failure::other("a block was not begun")),
        })
    }

    fn begin(&self) -> Result<State, Failure> {
        let Some(recipe) = &self.engine.server else {
            return Ok(State::Copied(self.workspace.copy_for_block(&self.template_data)?));
        };
        let directory = self.workspace.server_directory();
        if recipe.running_url().is_none() {
            self.workspace.copy_for_server(&self.template_data)?;
        }
        let started = self.engines.start(&StartOrder {
            engine: self.engine,
            settings: self.settings,
            directory: &directory,
            with_port: self.with_port,
        })?;
        Ok(State::Answers(Box::new(started)))
    }

    /// How the server ended, if it ended by itself since it was last asked.
    pub fn ended(&mut self) -> Option<String> {
        match &mut self.state {
            State::Answers(started) => started.ended(),
            _ => None,
        }
    }

    /// Moves the server's directory out of the way of the next block, for inspection.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub fn keep(&mut self, to: &Path) -> Result<(), Failure> {
        if let State::Answers(started) = std::mem::replace(&mut self.state, State::Idle) {
            started.kill();
            self.workspace.keep_server_directory(to)?;
        }
        Ok(())
    }

    /// Stops the server cleanly.
    ///
    /// # Errors
    /// If it cannot be ended.
    pub fn stop(mut self) -> Result<(), Failure> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Answers(started) => started.stop(),
            _ => Ok(()),
        }
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // Only after an error: the normal end is `stop`.
        if let State::Answers(started) = std::mem::replace(&mut self.state, State::Idle) {
            started.kill();
        }
    }
}
