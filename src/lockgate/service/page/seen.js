// Whether what was drawn can really be seen: the last look before a person may say yes to it.
//
// A style that went wrong, a window too narrow or a text made to push another out of the way all end here, whatever the
// cause: a piece without room, behind the edge of a box or of the window, or switched off, was not shown.

// A text needs this much room, or as much as it has letters for.
const LEAST_WIDTH = 100;
const A_LETTER = 4;
const A_LINE = 8;

export function unseen(pieces) {
  const edges = new Map();
  return pieces.filter((each) => each.textContent && !isSeen(each, edges));
}

function isSeen(piece, edges) {
  if (!piece.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) return false;
  const room = piece.getBoundingClientRect();
  const text = textOf(piece);
  if (!text || text.height < A_LINE) return false;
  if (room.width < Math.min(LEAST_WIDTH, A_LETTER * piece.textContent.length)) return false;
  const edge = edgeOf(piece, edges);
  return text.left >= edge.left - 1 && text.right <= edge.right + 1 && text.top >= edge.top - 1 && text.bottom <= edge.bottom + 1;
}

// Where its letters are, which is not always inside its box.
function textOf(piece) {
  const range = document.createRange();
  range.selectNodeContents(piece);
  const found = range.getBoundingClientRect();
  return found.width > 0 ? found : null;
}

// What the boxes around it let through: a box that scrolls hides what is not scrolled to. The window scrolls up and down
// only; what lies to its side is out of sight.
function edgeOf(node, edges) {
  if (!node || node === document.documentElement || node === document.body) return { left: 0, right: document.documentElement.clientWidth, top: -Infinity, bottom: Infinity };
  if (edges.has(node)) return edges.get(node);
  const around = edgeOf(node.parentElement, edges);
  const style = getComputedStyle(node);
  const made = { ...around };
  const box = style.overflowX === "visible" && style.overflowY === "visible" && style.clipPath === "none" ? null : node.getBoundingClientRect();
  if (box) {
    made.left = Math.max(around.left, box.left);
    made.right = Math.min(around.right, box.right);
    made.top = Math.max(around.top, box.top);
    made.bottom = Math.min(around.bottom, box.bottom);
  }
  edges.set(node, made);
  return made;
}
