//! Tests of the conversation.
