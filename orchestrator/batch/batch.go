// Package batch runs many tasks, each as one run of the orchestrator, and keeps
// what became of them in a directory that survives a crash at any moment.
package batch
