// Go's own transparency log code, asked about ours, and made to write a log of its own for us to read.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type inclusion struct {
	Size, Index int64
	Root, Leaf  tlog.Hash
	Proof       []tlog.Hash
}

type consistency struct {
	Size, Old     int64
	Root, OldRoot tlog.Hash
	Proof         []tlog.Hash
}

type head struct{ Vkey, Note string }

type question struct {
	Records     []string
	Roots       []tlog.Hash
	Inclusion   []inclusion
	Consistency []consistency
	Heads       []head
	SigningKey  string
	Written     []string
}

// What was accepted, one flag for each thing asked, and a log of Go's making.
type answer struct {
	Roots, Inclusion, Consistency, Heads, Written []bool
	Made                                          struct {
		Note        string
		Inclusion   []inclusion
		Consistency []consistency
	}
}

// The fields of spec/journal.md; those behind a bar may be absent, and are never empty.
var fields = map[string]string{
	"ruling": "session mode tool args_sha256 risk blocks context_sha256 tier tier1_result tier2_result tier2_by " +
		"tier2_exam tier3_result tier3_by tier3_exam width action reason rules origins policy_sha256 approval approved_by | trace",
	"context":       "session blocks",
	"approval":      "session approval state call_sha256 who | block",
	"assess":        "payload_sha256 verdict reason by acted rules | subject standing strikes conversation_sha256 trace",
	"configuration": "policy_sha256 settings_sha256 previous_sha256 software",
	"gap":           "first last reason",
	"prune":         "origin before retention_days who",
	"rotation":      "next_vkey who",
	"opening":       "origin previous_vkey previous",
}

const ofVersion2 = "tier2_exam tier3_exam width"

var shapes = map[string]*regexp.Regexp{
	"action":     regexp.MustCompile(`^(CONTINUE|REORIENT|PAUSE)$`),
	"trace":      regexp.MustCompile(`^[0-9a-f]*[1-9a-f][0-9a-f]*$`),
	"width":      regexp.MustCompile(`^(|narrow|wide)$`),
	"tier2_exam": regexp.MustCompile(`^(|[0-9a-f]{16,64})$`),
	"tier3_exam": regexp.MustCompile(`^(|[0-9a-f]{16,64})$`),
}
var hash = regexp.MustCompile(`^([0-9a-f]{64})?$`)

// isRecord says whether these bytes are a record: its fields, their shapes, and their one spelling.
func isRecord(text string) bool {
	var read map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&read) != nil {
		return false
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(read) != nil || written.String() != text+"\n" {
		return false
	}
	kind, _ := read["kind"].(string)
	version, isNumber := read["v"].(json.Number)
	named, optional, _ := strings.Cut(fields[kind], "|")
	needed := append(strings.Fields(named), "kind", "run", "salt", "seq", "ts_ms", "v")
	if kind == "ruling" && version == "1" {
		needed = slices.DeleteFunc(needed, func(name string) bool { return slices.Contains(strings.Fields(ofVersion2), name) })
	} else if !isNumber || (kind == "ruling") != (version == "2") || (kind != "ruling" && version != "1") {
		return false
	}
	for _, name := range needed {
		if _, is := read[name]; !is {
			return false
		}
	}
	for name, value := range read {
		isOptional := slices.Contains(strings.Fields(optional), name)
		if !isOptional && !slices.Contains(needed, name) || value == nil || isOptional && value == "" {
			return false
		}
		switch value := value.(type) {
		case string:
			shape, isShaped := shapes[name]
			if strings.HasSuffix(name, "_sha256") && !hash.MatchString(value) || isShaped && !shape.MatchString(value) {
				return false
			}
		case json.Number:
			if number, err := value.Int64(); err != nil || number < 0 || number >= 1<<53 {
				return false
			}
		}
	}
	return true
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var asked question
	var told answer
	check(json.NewDecoder(os.Stdin).Decode(&asked))

	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, index := range indexes {
			found = append(found, stored[index])
		}
		return found, nil
	})
	roots := []tlog.Hash{}
	for size := range asked.Roots {
		if size > 0 {
			made, err := tlog.StoredHashes(int64(size-1), []byte(asked.Records[size-1]), reader)
			check(err)
			stored = append(stored, made...)
		}
		root, err := tlog.TreeHash(int64(size), reader)
		check(err)
		roots = append(roots, root)
		told.Roots = append(told.Roots, root == asked.Roots[size])
	}
	for _, each := range asked.Inclusion {
		err := tlog.CheckRecord(each.Proof, each.Size, each.Root, each.Index, each.Leaf)
		told.Inclusion = append(told.Inclusion, err == nil)
	}
	for _, each := range asked.Consistency {
		err := tlog.CheckTree(each.Proof, each.Size, each.Root, each.Old, each.OldRoot)
		told.Consistency = append(told.Consistency, err == nil)
	}
	for _, each := range asked.Heads {
		verifier, err := note.NewVerifier(each.Vkey)
		if err == nil {
			_, err = note.Open([]byte(each.Note), note.VerifierList(verifier))
		}
		told.Heads = append(told.Heads, err == nil)
	}

	for _, text := range asked.Written {
		told.Written = append(told.Written, isRecord(text))
	}

	size := int64(len(asked.Records))
	for at := int64(0); at < size; at++ {
		proof, err := tlog.ProveRecord(size, at, reader)
		check(err)
		leaf := tlog.RecordHash([]byte(asked.Records[at]))
		told.Made.Inclusion = append(told.Made.Inclusion, inclusion{size, at, roots[size], leaf, proof})
	}
	for old := int64(1); old <= size; old++ {
		proof, err := tlog.ProveTree(size, old, reader)
		check(err)
		told.Made.Consistency = append(told.Made.Consistency, consistency{size, old, roots[size], roots[old], proof})
	}
	signer, err := note.NewSigner(asked.SigningKey)
	check(err)
	text := signer.Name() + "\n" + strconv.FormatInt(size, 10) + "\n" + roots[size].String() + "\n"
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	check(err)
	told.Made.Note = string(signed)

	var out bytes.Buffer
	check(json.NewEncoder(&out).Encode(told))
	_, err = os.Stdout.Write(out.Bytes())
	check(err)
}
